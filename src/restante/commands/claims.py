"""Claiming: which commands a collector is handed, in one write transaction.

    settle the site ─▶ first of each type ─▶ by rank, while the type's window has room ─▶ lease · count · record

What a claim costs depends on how many commands it hands out, not on how many wait.

Must always hold: the check of a window and its count are one transaction, so that no number of polls at once is handed
more than the limit; a command is handed out in the transaction that raises its attempt, so that each attempt has
one holder; and nobody is handed anything who has been revoked, however long ago the poll began.
"""

import uuid
from dataclasses import dataclass, field
from typing import NamedTuple

from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.collectors import SealedSecrets, sealed_secrets
from restante.commands.leases import settle
from restante.commands.rate_windows import RateRules, Window, note_taken, window_of
from restante.commands.wire import AccessDenied
from restante.core.command_states import Event, State, next_state
from restante.core.errors import NotAuthenticated
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)

HELD_BACK_COUNT_MAX = 1000
_DISPATCHED = next_state(State.pending, Event.dispatch).value


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    lease_seconds: int = 60
    rates: RateRules = field(default_factory=RateRules)
    is_signed: bool = False


class Claim(NamedTuple):
    """Who wants how many commands; of the whole site, or, with a zone, of that zone of it."""

    caller: CollectorCaller
    zone_id: int | None
    limit: int


class Claimed(NamedTuple):
    """What a claim found. `held_back` wait for a rate window; `look_again_ms`: when there may be more without news."""

    commands: list[Row]
    held_back: int
    has_more: bool
    look_again_ms: int | None
    now_ms: int
    secrets: SealedSecrets | None = None


def claim(conn: Connection, trail: AuditTrail, options: ClaimOptions, wanted: Claim) -> Claimed:
    """Hand the collector what it may have now, up to its limit."""
    caller = wanted.caller
    wanted = wanted._replace(zone_id=_served_zone(conn, wanted))
    soonest = settle(conn, trail, caller.site_id).soonest()
    ready = _ready(conn, wanted)
    if not ready:
        return Claimed([], 0, False, soonest, conn.now_ms)
    windows: dict[str, Window] = {}
    chosen, has_more = _choose(conn, options.rates, wanted, ready, windows)
    commands = _dispatch(conn, options, caller, chosen, windows)
    if commands:
        trail.record_all(conn, caller.site_id, [_entry(caller, row) for row in commands])
    held_back, frees_at_ms = _close(conn, wanted, windows)
    moments = [soonest, frees_at_ms, commands[0]["lease_until"] if commands else None]
    look_again_ms = min((moment for moment in moments if moment is not None), default=None)
    secrets = sealed_secrets(conn, caller.device_id) if options.is_signed and commands else None
    return Claimed(commands, held_back, has_more, look_again_ms, conn.now_ms, secrets)


def _served_zone(conn: Connection, wanted: Claim) -> int | None:
    """The zone to look in. A collector of one zone serves that zone only; nobody is told of zones of other sites."""
    own, asked = wanted.caller.zone_id, wanted.zone_id
    if asked is None or asked == own:
        return own
    if own is not None or conn.one(SQL.zone_of_site, zone_id=asked, site_id=wanted.caller.site_id) is None:
        raise AccessDenied()
    return asked


def _refuse_revoked(conn: Connection, caller: CollectorCaller) -> None:
    """Its token was good when it began to wait; only this transaction knows whether it still is."""
    if conn.one(SQL.unrevoked, device_id=caller.device_id) is None:
        raise NotAuthenticated("the collector was revoked")


def _ready(conn: Connection, wanted: Claim) -> list[Row]:
    """What could be handed out, in order: more of each type than are wanted, to know if there are more."""
    if wanted.zone_id is None:
        rows = conn.all(SQL.ready, site_id=wanted.caller.site_id, limit=wanted.limit + 1)
    else:
        rows = conn.all(SQL.ready_in_zone, zone_id=wanted.zone_id, limit=wanted.limit + 1)
    return sorted(rows, key=lambda row: (row["rank"], row["id"])) if len(rows) > 1 else rows


def _choose(
    conn: Connection, rates: RateRules, wanted: Claim, ready: list[Row], windows: dict[str, Window]
) -> tuple[list[Row], bool]:
    """Which of them to hand out, taken from their windows; and whether more could be.

    All are looked at, also when there are enough: the window of each type tells how many of it are held back.
    """
    chosen: list[Row] = []
    has_more = False
    for row in ready:
        command_type = row["command_type"]
        window = windows.get(command_type)
        if window is None:
            window = windows[command_type] = window_of(conn, rates, wanted.caller.site_id, command_type)
        if window.left <= 0:
            continue
        if len(chosen) == wanted.limit:
            has_more = True
            continue
        window.take()
        chosen.append(row)
    return chosen, has_more


def _dispatch(
    conn: Connection,
    options: ClaimOptions,
    caller: CollectorCaller,
    chosen: list[Row],
    windows: dict[str, Window],
) -> list[Row]:
    lease_until = conn.now_ms + options.lease_seconds * 1000
    commands = []
    for each in chosen:
        row = conn.one(
            SQL.dispatch,
            id=each["id"],
            status=_DISPATCHED,
            device_id=caller.device_id,
            lease_until=lease_until,
            nonce=str(uuid.uuid4()),
            now_ms=conn.now_ms,
        )
        if row is not None:
            commands.append(row)
        else:
            _refuse_revoked(conn, caller)
            # It has expired, and more have than settling takes in one go.
            windows[each["command_type"]].put_back()
    return commands


def _close(conn: Connection, wanted: Claim, windows: dict[str, Window]) -> tuple[int, int | None]:
    """Count what was taken; how many wait for a window, and when the first of those windows has room."""
    held_back = 0
    frees_at_ms: int | None = None
    for window in windows.values():
        if window.taken:
            note_taken(conn, window)
        if window.left <= 0 and (waiting := _waiting(conn, wanted, window.command_type)):
            held_back += waiting
            at = window.frees_at_ms(conn.now_ms)
            frees_at_ms = at if frees_at_ms is None else min(at, frees_at_ms)
    return held_back, frees_at_ms


def _waiting(conn: Connection, wanted: Claim, command_type: str) -> int:
    row = conn.one(
        SQL.count_held_back if wanted.zone_id is None else SQL.count_held_back_in_zone,
        site_id=wanted.caller.site_id,
        zone_id=wanted.zone_id,
        command_type=command_type,
        count_max=HELD_BACK_COUNT_MAX,
    )
    return int(row["count"]) if row else 0


def _entry(caller: CollectorCaller, row: Row) -> AuditEntry:
    return AuditEntry(
        caller.site_id,
        f"collector:{caller.device_id}",
        f"command.{Event.dispatch}",
        row["command_id"],
        State.pending.value,
        _DISPATCHED,
        {"attempt": row["attempt"], "lease_until": row["lease_until"]},
    )
