"""Leases that end by themselves: a site is brought up to the database's present.

    expires_at passed   active     ──▶ expired
    lease_until passed  leased     ──▶ pending after its back-off, or failed (LEASE_EXPIRED) with no retry left
    next_attempt_at passed         ──▶ can be handed out

Whoever hands out, takes ACKs or explains a site's commands settles it first, so what they see does not depend on
when somebody last looked. One look finds that nothing is due; work is bounded in one call, and what is left over shows
in the moments that are returned.

Must always hold: what settling does depends on the times in the rows, never on when it is done: a back-off is counted
from the end of the lease.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.queue import SITE_LOCK, CommandsChanged
from restante.commands.site_quiet import Quiet, is_quiet
from restante.core.ack import Standing, outcome_of_lost_lease
from restante.core.command_states import TERMINAL, Event, State, next_state
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

SYSTEM = "restante"
LEASE_EXPIRED = "LEASE_EXPIRED"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class SettleOptions:
    rows_max: int = 200


DEFAULT_OPTIONS = SettleOptions()


class CommandFailed(NamedTuple):
    """Announced by the commit in which a command ends failed, for who counts them."""

    site_id: int
    code: str


class Moments(NamedTuple):
    """When the next command of a site expires, runs out of its lease, or becomes ready; None: none will."""

    expiring: int | None
    leased: int | None
    delayed: int | None

    def soonest(self) -> int | None:
        return min([moment for moment in self if moment is not None], default=None)


def settle(conn: Connection, trail: AuditTrail, site_id: int, options: SettleOptions = DEFAULT_OPTIONS) -> Moments:
    """Do what is due at the site; when the next will be."""
    return settle_all(conn, trail, [site_id], options)[site_id]


def settle_all(
    conn: Connection, trail: AuditTrail, sites: Sequence[int], options: SettleOptions = DEFAULT_OPTIONS
) -> dict[int, Moments]:
    """The same for several sites. One look shows at which of them something is due."""
    conn.lock(SITE_LOCK, *sites)
    return settle_due(conn, trail, moments_of(conn, sites)(), options)


def settle_due(
    conn: Connection, trail: AuditTrail, moments: dict[int, Moments], options: SettleOptions = DEFAULT_OPTIONS
) -> dict[int, Moments]:
    """Do what is due by these moments, which were read under the sites' locks; the moments after it."""
    due = [site_id for site_id, known in moments.items() if _is_past(known.soonest(), conn.now_ms)]
    for site_id in due:
        _settle(conn, trail, site_id, options)
    return moments | moments_of(conn, due)() if due else moments


def settle_disturbed(conn: Connection, trail: AuditTrail, sites: Sequence[int], known: Quiet) -> tuple[Quiet, bool]:
    """Do what is due at the sites that are not known to be quiet; until when each is, and whether anything was done."""
    disturbed = [site_id for site_id in sites if not is_quiet(known, site_id, conn.now_ms)]
    if not disturbed:
        return known.copy(), False
    moments = moments_of(conn, disturbed)()
    settled = settle_due(conn, trail, moments)
    return known | {site_id: after.soonest() for site_id, after in settled.items()}, settled is not moments


def moments_of(conn: Connection, sites: Sequence[int]) -> Callable[[], dict[int, Moments]]:
    """When something is next due at each of the sites; read now, told when called for."""
    found = conn.values_later(SQL.moments, sites=_encode(sites).decode())
    return lambda: {site_id: Moments(*moments) for site_id, *moments in found()}


def standing_of(row: Row) -> Standing:
    """A command's row as the decisions about ACKs and leases want it."""
    return Standing(
        row["command_id"],
        State(row["status"]),
        row["lease_owner"],
        row["lease_until"],
        row["attempt"],
        row["nonce"],
        row["ack_hash"],
        row["ack_attempt"],
        row["retry_count"],
        row["max_retries"],
        row["retry_backoff_sec"],
    )


def sites_due(conn: Connection) -> list[int]:
    """The sites where settling would find something to do."""
    return [row["id"] for row in conn.all(SQL.sites_due, now_ms=conn.now_ms)]


def _is_past(moment: int | None, now_ms: int) -> bool:
    return moment is not None and moment <= now_ms


def _settle(conn: Connection, trail: AuditTrail, site_id: int, options: SettleOptions) -> None:
    due = {"site_id": site_id, "now_ms": conn.now_ms, "rows_max": options.rows_max}
    entries = [_expire(conn, row) for row in conn.all(SQL.due_to_expire, **due)]
    entries += [_recover(conn, row) for row in conn.all(SQL.leases_run_out, **due)]
    if entries:
        trail.record_all(conn, entries)
    conn.run(SQL.make_ready, **due)
    conn.announce(CommandsChanged(site_id))


def _expire(conn: Connection, row: Row) -> AuditEntry:
    state = next_state(row["status"], Event.expire)
    conn.run(SQL.expire, id=row["id"], status=state, now_ms=conn.now_ms)
    return _entry(row, Event.expire, state, {"expires_at": row["expires_at"]})


def _recover(conn: Connection, row: Row) -> AuditEntry:
    outcome = outcome_of_lost_lease(standing_of(row))
    is_over = outcome.state in TERMINAL
    conn.run(
        SQL.give_up if is_over else SQL.offer_again,
        id=row["id"],
        status=outcome.state,
        retry_count=outcome.retry_count,
        next_attempt_at=outcome.next_attempt_at_ms,
        now_ms=conn.now_ms,
        result_code=LEASE_EXPIRED,
    )
    if is_over:
        conn.announce(CommandFailed(row["site_id"], LEASE_EXPIRED))
    detail = {
        "attempt": row["attempt"],
        "lease_owner": row["lease_owner"],
        "lease_until": row["lease_until"],
        **({"result_code": LEASE_EXPIRED} if is_over else {"next_attempt_at": outcome.next_attempt_at_ms}),
    }
    return _entry(row, outcome.event, outcome.state, detail)


def _entry(row: Row, event: Event, state: State, detail: dict[str, Any]) -> AuditEntry:
    return AuditEntry(row["site_id"], SYSTEM, f"command.{event}", row["command_id"], row["status"], state, detail)
