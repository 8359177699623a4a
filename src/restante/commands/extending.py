"""Lengthening a lease, for work that takes longer than a lease lasts. Its holder only, and only while it is live.

A lease is never shortened by this; however long it gets, the command still expires at its own time.
"""

import msgspec

from restante.commands.ack_body import ExtendBody
from restante.commands.acks import AckOptions, find_held, refusal_of
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.wire import iso
from restante.core.ack import Standing, Verdict, holds_lease, nonce_fits
from restante.core.command_states import TERMINAL, State
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)


class Extended(msgspec.Struct):
    status: str
    command_id: str
    command_status: str
    attempt: int
    lease_until: str
    lease_duration_sec: int


def extend(
    conn: Connection,
    trail: AuditTrail,
    options: AckOptions,
    caller: CollectorCaller,
    command_id: str,
    wanted: ExtendBody,
) -> Extended | RestanteError:
    """The lease as it is now. A refusal is returned, not raised: what settling found on the way stays done."""
    held = find_held(conn, trail, caller, command_id)
    if isinstance(held, RestanteError):
        return held
    standing = held.standing
    refusal = refusal_of(_verdict(standing, caller, wanted, conn.now_ms, options), standing)
    if refusal is not None:
        return refusal
    until = max(standing.lease_until_ms or 0, conn.now_ms + wanted.lease_seconds * 1000)
    conn.run(SQL.extend, id=held.id, lease_until=until)
    state = standing.state.value
    detail = {"attempt": standing.attempt, "lease_until": until}
    actor = f"collector:{caller.device_id}"
    trail.record(conn, AuditEntry(caller.site_id, actor, "command.lease_extended", command_id, state, state, detail))
    seconds = (until - conn.now_ms) // 1000
    return Extended("ok", command_id, state, standing.attempt, iso(until), seconds)


def _verdict(
    standing: Standing, caller: CollectorCaller, wanted: ExtendBody, now_ms: int, options: AckOptions
) -> Verdict:
    """The checks of an ACK, in their order, without replays."""
    if standing.state in TERMINAL:
        return Verdict.expired if standing.state is State.expired else Verdict.finished
    if not holds_lease(standing, caller.device_id, now_ms):
        return Verdict.not_owner
    if not nonce_fits(standing, wanted.nonce, is_required=options.is_nonce_required):
        return Verdict.wrong_nonce
    return Verdict.counts
