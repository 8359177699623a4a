"""Extending a lease, for work that takes longer. Only the lease owner may extend it, and only while it is live.

An extension never shortens a lease. The command still expires at its own time, however long the lease is.
"""

import msgspec

from restante.commands.acks.ack_schema import ExtendBody
from restante.commands.acks.acks import AckOptions, error_of_verdict, find_command
from restante.commands.acks.repeated_reports import Report, count_reports
from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.core.commands.ack import AckVerdict, CommandSnapshot, holds_lease, nonce_matches
from restante.core.commands.command_states import TERMINAL, State
from restante.core.errors import RestanteError
from restante.core.iso_time import iso_whole_seconds
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)

_EVENT = "command.lease_extended"


class LeaseExtension(msgspec.Struct):
    status: str
    command_id: str
    command_status: str
    attempt: int
    lease_until: str
    lease_duration_sec: int


def extend_lease(
    conn: Connection,
    trail: AuditTrail,
    options: AckOptions,
    caller: CollectorCaller,
    command_id: str,
    body: ExtendBody,
) -> LeaseExtension | RestanteError:
    """Extend the lease. An error is returned, not raised: the settlement that this call applied must be committed."""
    command = find_command(conn, trail, caller, command_id)
    if isinstance(command, RestanteError):
        return command
    error = error_of_verdict(_verdict(command, caller, body, conn.now_ms, options), command)
    if error is not None:
        return error
    until = max(command.lease_until_ms or 0, conn.now_ms + body.lease_seconds * 1000)
    conn.run(SQL.extend, id=command.id, lease_until=until)
    state = command.state.value
    detail = {"attempt": command.attempt, "lease_until": until}
    actor = f"collector:{caller.device_id}"
    entry = AuditEntry(caller.site_id, actor, _EVENT, command_id, state, state, detail)
    entries = count_reports(conn, [Report(caller.device_id, _EVENT, entry)])
    if entries:
        trail.record_all(conn, entries)
    seconds = (until - conn.now_ms) // 1000
    return LeaseExtension("ok", command_id, state, command.attempt, iso_whole_seconds(until), seconds)


def _verdict(
    command: CommandSnapshot, caller: CollectorCaller, body: ExtendBody, now_ms: int, options: AckOptions
) -> AckVerdict:
    """The checks of an ACK in the same order, without the check for a replay."""
    if command.state in TERMINAL:
        return AckVerdict.expired if command.state is State.expired else AckVerdict.finished
    if not holds_lease(command, caller.device_id, now_ms):
        return AckVerdict.not_owner
    if not nonce_matches(command, body.nonce, is_required=options.is_nonce_required):
        return AckVerdict.wrong_nonce
    return AckVerdict.accepted
