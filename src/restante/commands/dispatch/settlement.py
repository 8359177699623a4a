"""Settlement: applies to a site's commands the changes that time alone causes.

    expires_at passed       active command ──▶ expired
    lease_until passed      leased command ──▶ pending after its back-off; failed (LEASE_EXPIRED) without a retry left
    next_attempt_at passed                 ──▶ ready

Claims, ACKs and explanations settle a site first, so their results do not depend on the last sweep. One scan shows that
nothing is due. Each call does a bounded amount of work; the returned due times show whether some is left.

Invariants: the result of a settlement depends on the times in the rows, never on when it runs. For example, a back-off
counts from the end of the lease.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.dispatch.busy_miners import release_miners
from restante.commands.dispatch.next_due import NextDueTimes, is_before_next_due
from restante.commands.lifecycle.ordering import SITE_LOCK, CommandsChanged
from restante.core.commands.ack import CommandSnapshot, outcome_of_lost_lease
from restante.core.commands.command_states import TERMINAL, Event, State, next_state
from restante.database.commit_events import LocalEvent
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

SYSTEM = "restante"
LEASE_EXPIRED = "LEASE_EXPIRED"
# How many commands of each kind one settlement of a site changes.
ROWS_MAX = 200

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class CommandFailed(LocalEvent):
    """A command has failed, with this result code. Counted by the process that committed it."""

    site_id: int
    code: str


class DueTimes(NamedTuple):
    """When the next command of a site expires, loses its lease, or ends its delay; None: no command will."""

    expiring: int | None
    leased: int | None
    delayed: int | None

    def soonest(self) -> int | None:
        return min([due_ms for due_ms in self if due_ms is not None], default=None)


def apply_settlement(conn: Connection, trail: AuditTrail, site_id: int) -> DueTimes:
    """Apply everything that is due at the site. Return the due times after that."""
    conn.lock(SITE_LOCK, site_id)
    due_times = prefetch_due_times(conn, [site_id])()
    _apply_due(conn, trail, due_times)
    return due_times[site_id]


def apply_settlement_if_due(
    conn: Connection, trail: AuditTrail, sites: Sequence[int], known: NextDueTimes
) -> tuple[NextDueTimes, bool]:
    """Settle the sites whose known next due time has passed, or is unknown. The caller holds their locks.

    Return the next due time of each site, and whether any command was due.
    """
    unsure = [site_id for site_id in sites if not is_before_next_due(known, site_id, conn.now_ms)]
    if not unsure:
        return known.copy(), False
    due_times = prefetch_due_times(conn, unsure)()
    was_due = _apply_due(conn, trail, due_times)
    return known | {site_id: times.soonest() for site_id, times in due_times.items()}, was_due


def prefetch_due_times(conn: Connection, sites: Iterable[int]) -> Callable[[], dict[int, DueTimes]]:
    """Start to read the due times of the sites. The returned function yields them."""
    rows = conn.prefetch(SQL.due_times, sites=_encode(sites).decode())
    return lambda: {site_id: DueTimes(*due_times) for site_id, *due_times in rows()}


def sites_due(conn: Connection) -> list[int]:
    """The sites where a settlement would change a command."""
    return [row["id"] for row in conn.all(SQL.sites_due, now_ms=conn.now_ms)]


def _apply_due(conn: Connection, trail: AuditTrail, due_times: dict[int, DueTimes]) -> bool:
    """Settle the sites with a due time in the past and update their due times. Return whether there was any."""
    due_sites = [site_id for site_id, times in due_times.items() if _is_past(times.soonest(), conn.now_ms)]
    for site_id in due_sites:
        _settle(conn, trail, site_id)
    if due_sites:
        due_times |= prefetch_due_times(conn, due_sites)()
    return bool(due_sites)


def _is_past(due_ms: int | None, now_ms: int) -> bool:
    return due_ms is not None and due_ms <= now_ms


def _settle(conn: Connection, trail: AuditTrail, site_id: int) -> None:
    due = {"site_id": site_id, "now_ms": conn.now_ms, "rows_max": ROWS_MAX}
    expired = conn.all(SQL.expired_commands, **due)
    entries = [_expire(conn, row) for row in expired]
    lost = conn.all(SQL.expired_leases, **due)
    entries += [_end_lease(conn, row) for row in lost]
    release_miners(conn, (row["miner_id"] for row in (*expired, *lost)))
    if entries:
        trail.record_all(conn, entries)
    conn.run(SQL.end_delays, **due)
    conn.add_commit_event(CommandsChanged(site_id))


def _expire(conn: Connection, row: Row) -> AuditEntry:
    state = next_state(row["state"], Event.expire)
    conn.run(SQL.expire, id=row["id"], status=state, now_ms=conn.now_ms)
    return _entry(row, Event.expire, state, {"expires_at": row["expires_at"]})


def _end_lease(conn: Connection, row: Row) -> AuditEntry:
    outcome = outcome_of_lost_lease(_snapshot_of(row))
    has_failed = outcome.state in TERMINAL
    conn.run(
        SQL.give_up if has_failed else SQL.requeue,
        id=row["id"],
        status=outcome.state,
        retry_count=outcome.retry_count,
        next_attempt_at=outcome.next_attempt_at_ms,
        now_ms=conn.now_ms,
        result_code=LEASE_EXPIRED,
    )
    if has_failed:
        conn.add_commit_event(CommandFailed(row["site_id"], LEASE_EXPIRED))
    detail = {
        "attempt": row["attempt"],
        "lease_owner": row["lease_owner"],
        "lease_until": row["lease_until_ms"],
        **({"result_code": LEASE_EXPIRED} if has_failed else {"next_attempt_at": outcome.next_attempt_at_ms}),
    }
    return _entry(row, outcome.event, outcome.state, detail)


def _snapshot_of(row: Row) -> CommandSnapshot:
    fields = {name: row[name] for name in CommandSnapshot.__struct_fields__}
    return CommandSnapshot(**{**fields, "state": State(row["state"])})


def _entry(row: Row, event: Event, state: State, detail: dict[str, Any]) -> AuditEntry:
    return AuditEntry(row["site_id"], SYSTEM, f"command.{event}", row["command_id"], row["state"], state, detail)
