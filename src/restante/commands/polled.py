"""A command as a collector is handed it: the contract's fields, its signature, and what collectors in the field read.

Eleven fields are signed, those of `SignedPart`; the others are told beside them. Where signing is off, the three
signature fields are null and all else is the same.
"""

import msgspec

from restante.commands.claims import Claimed, HandedOut
from restante.commands.collectors import SecretBox
from restante.commands.signing import sign
from restante.commands.wire import iso
from restante.core.canonical import SIG_ENCODING, SIG_VERSION

# The name that collectors in the field read as `command`, and not `command_type`.
LEGACY_NAMES = {
    "MINER_RESTART": "restart",
    "DEVICE_REBOOT": "reboot",
    "HASHING_ENABLE": "enable",
    "HASHING_DISABLE": "disable",
    "POOL_SET": "set_pool",
    "SET_FAN": "set_fan",
    "SET_FREQUENCY": "set_frequency",
    "POWER_MODE": "power_mode",
}

_params = msgspec.json.Decoder(dict[str, object])


class SignedPart(msgspec.Struct):
    """What is signed of a command: its fields stand in the order of their names, which makes its JSON canonical."""

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
    params: dict[str, object]
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


class PollAnswer(msgspec.Struct):
    commands: list[PolledCommand]
    miner_command_count: int
    remote_command_count: int
    rate_limited_count: int
    server_time: str


def poll_answer(claimed: Claimed, box: SecretBox, lease_seconds: int) -> PollAnswer:
    secret = None if claimed.sealed_secret is None else box.open(claimed.sealed_secret)
    commands = [_polled(row, secret, lease_seconds) for row in claimed.commands]
    for_one = sum(command.miner_id is not None for command in commands)
    return PollAnswer(commands, for_one, len(commands) - for_one, claimed.held_back, iso(claimed.now_ms))


def _polled(row: HandedOut, secret: str | None, lease_seconds: int) -> PolledCommand:
    part = SignedPart(
        command_id=row.command_id,
        command_type=row.command_type,
        dedupe_key=row.dedupe_key,
        expires_at=iso(row.expires_at),
        miner_id=row.miner_id,
        nonce=row.nonce,
        params=_params.decode(row.params),
        priority=row.priority,
        signed_at=iso(row.signed_at),
        site_id=row.site_id,
        zone_id=row.zone_id,
    )
    return PolledCommand(
        command_id=row.command_id,
        site_id=row.site_id,
        zone_id=row.zone_id,
        miner_id=row.miner_id,
        command_type=row.command_type,
        params=part.params,
        priority=row.priority,
        expires_at=part.expires_at,
        dedupe_key=row.dedupe_key,
        signed_at=part.signed_at,
        nonce=row.nonce,
        signature=None if secret is None else sign(part, secret),
        sig_version=None if secret is None else SIG_VERSION,
        sig_encoding=None if secret is None else SIG_ENCODING,
        command=LEGACY_NAMES[row.command_type],
        attempt=row.attempt,
        retry_count=row.retry_count,
        max_retries=row.max_retries,
        lease_until=iso(row.lease_until),
        lease_duration_sec=lease_seconds,
    )
