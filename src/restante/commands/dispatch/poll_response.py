"""The response of a poll: commands with the contract's fields, their signatures, and fields that older collectors read.

Eleven fields are signed: those of `SignedFields`. The others are sent unsigned. If signing is off, the three signature
fields are null and everything else is the same.
"""

from typing import Any

import msgspec

from restante.commands.dispatch.claims import ClaimResult, DispatchedCommand
from restante.commands.dispatch.signing import sign
from restante.commands.lifecycle.command_types import COMMAND_TYPES
from restante.commands.lifecycle.secret_params import with_secrets
from restante.commands.sites.collectors import SecretBox
from restante.core.commands.canonical import SIG_ENCODING, SIG_VERSION
from restante.core.iso_time import iso_whole_seconds

_params = msgspec.json.Decoder(dict[str, object])


class SignedFields(msgspec.Struct):
    """The signed fields of a command, in alphabetical order: this makes its JSON canonical."""

    command_id: str
    command_type: str
    dedupe_key: str | None
    expires_at: str
    miner_id: int | None
    nonce: str
    params: dict[str, object]
    priority: int
    signed_at: str
    site_id: int
    zone_id: int


class PolledCommand(msgspec.Struct):
    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    command_type: str
    params: dict[str, Any]
    priority: int
    expires_at: str
    dedupe_key: str | None
    signed_at: str
    nonce: str
    signature: str | None
    sig_version: str | None
    sig_encoding: str | None
    command: str
    attempt: int
    retry_count: int
    max_retries: int
    lease_until: str
    lease_duration_sec: int


class CommandPollResponse(msgspec.Struct):
    commands: list[PolledCommand]
    miner_command_count: int
    remote_command_count: int
    rate_limited_count: int
    server_time: str


def build_poll_response(result: ClaimResult, box: SecretBox, lease_seconds: int) -> CommandPollResponse:
    secret = None if result.sealed_secret is None else box.open(result.sealed_secret)
    commands = [_polled_command(row, box, secret, lease_seconds) for row in result.commands]
    for_one_miner = sum(command.miner_id is not None for command in commands)
    return CommandPollResponse(
        commands,
        for_one_miner,
        len(commands) - for_one_miner,
        result.rate_limited_count,
        iso_whole_seconds(result.now_ms),
    )


def _polled_command(row: DispatchedCommand, box: SecretBox, secret: str | None, lease_seconds: int) -> PolledCommand:
    signed = SignedFields(
        command_id=row.command_id,
        command_type=row.command_type,
        dedupe_key=row.dedupe_key,
        expires_at=iso_whole_seconds(row.expires_at),
        miner_id=row.miner_id,
        nonce=row.nonce,
        params=with_secrets(box, _params.decode(row.params), row.sealed_params),
        priority=row.priority,
        signed_at=iso_whole_seconds(row.signed_at),
        site_id=row.site_id,
        zone_id=row.zone_id,
    )
    return PolledCommand(
        command_id=row.command_id,
        site_id=row.site_id,
        zone_id=row.zone_id,
        miner_id=row.miner_id,
        command_type=row.command_type,
        params=signed.params,
        priority=row.priority,
        expires_at=signed.expires_at,
        dedupe_key=row.dedupe_key,
        signed_at=signed.signed_at,
        nonce=row.nonce,
        signature=None if secret is None else sign(signed, secret),
        sig_version=None if secret is None else SIG_VERSION,
        sig_encoding=None if secret is None else SIG_ENCODING,
        command=COMMAND_TYPES[row.command_type].legacy_name,
        attempt=row.attempt,
        retry_count=row.retry_count,
        max_retries=row.max_retries,
        lease_until=iso_whole_seconds(row.lease_until),
        lease_duration_sec=lease_seconds,
    )
