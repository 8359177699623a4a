"""The commands of a poll in the form that older collectors read.

`miner_id` is a text, because an older collector looks it up among the texts of its own configuration and would not find
a number. Nothing is signed: an older collector verifies nothing, and the signature covers the number.
"""

from typing import Any

import msgspec

from restante.commands.dispatch.poll_response import CommandPollResponse, PolledCommand


class PendingCommand(msgspec.Struct):
    command_id: str
    id: str
    site_id: int
    zone_id: int
    miner_id: str | None
    command: str
    action: str
    command_type: str
    params: dict[str, Any]
    priority: int
    issued_at: str
    expires_at: str
    nonce: str
    attempt: int
    lease_until: str


class PendingResponse(msgspec.Struct):
    success: bool
    commands: list[PendingCommand]
    count: int
    server_time: str


def pending_response(polled: CommandPollResponse) -> PendingResponse:
    commands = [_pending(command) for command in polled.commands]
    return PendingResponse(True, commands, len(commands), polled.server_time)


def _pending(command: PolledCommand) -> PendingCommand:
    return PendingCommand(
        command_id=command.command_id,
        id=command.command_id,
        site_id=command.site_id,
        zone_id=command.zone_id,
        miner_id=None if command.miner_id is None else str(command.miner_id),
        command=command.command,
        action=command.command,
        command_type=command.command_type,
        params=command.params,
        priority=command.priority,
        issued_at=command.signed_at,
        expires_at=command.expires_at,
        nonce=command.nonce,
        attempt=command.attempt,
        lease_until=command.lease_until,
    )
