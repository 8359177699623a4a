"""Claiming: which commands collectors are handed, in one write transaction, for many polls at once.

    settle the sites ─▶ first of each type ─▶ by rank, while the type's window has room ─▶ lease · count · record

What a claim costs depends on how many commands it hands out, not on how many wait. Polls that are claimed for together
are served one after another, from what was read for all of them; what they are handed is what each would have been
handed in a transaction of its own.

Must always hold: the check of a window and its count are one transaction, so that no number of polls at once is handed
more than the limit; a command is handed out in the transaction that raises its attempt, so that each attempt has
one holder; and nobody is handed anything whose token has ended, however long ago the poll began.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from restante.commands.audit import AuditEntry, AuditTrail, Ends
from restante.commands.collectors import Credentials, credentials_of
from restante.commands.leases import settle_disturbed
from restante.commands.queue import SITE_LOCK
from restante.commands.rate_windows import RateRules, Window, note_taken, windows_of
from restante.commands.ready_marks import RAISE_EVERY, raise_marks
from restante.commands.site_quiet import Quiet, note_quiet, quiet_of
from restante.commands.wire import AccessDenied
from restante.core.command_states import Event, State, next_state
from restante.core.errors import NotAuthenticated
from restante.core.nonce import new_nonce
from restante.database.connection import Connection
from restante.database.hot import Failed, HotOperation
from restante.database.queries import queries_beside
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)

HELD_BACK_COUNT_MAX = 1000
_DISPATCHED = next_state(State.pending, Event.dispatch).value
_PENDING = State.pending.value
_EVENT = f"command.{Event.dispatch}"

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    lease_seconds: int = 60
    rates: RateRules = field(default_factory=RateRules)
    is_signed: bool = False


class Claim(msgspec.Struct, frozen=True):
    """Who wants how many commands; of the whole site, or, with a zone, of that zone of it."""

    caller: CollectorCaller
    zone_id: int | None
    limit: int


class _Ready(msgspec.Struct, frozen=True, order=True):
    """A command that could be handed out; they stand in the order in which they compare."""

    rank: int
    id: int
    command_type: str
    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    params: str
    priority: int
    expires_at: int
    dedupe_key: str | None
    attempt: int
    retry_count: int
    max_retries: int
    ready_at: int
    mark: int | None
    frontier: int | None


class HandedOut(msgspec.Struct, frozen=True):
    """A command with the lease it is handed out under. `params` is a JSON text; `waited_ms`: for how long it could have
    been handed out before it was, which of a retry is not known."""

    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    command_type: str
    params: str
    priority: int
    expires_at: int
    dedupe_key: str | None
    nonce: str
    signed_at: int
    lease_until: int
    attempt: int
    retry_count: int
    max_retries: int
    waited_ms: int | None


class Claimed(msgspec.Struct, frozen=True):
    """What a claim found. `held_back` wait for a rate window; `look_again_ms`: when there may be more without news.
    `sealed_secret` is what the commands are to be signed with. Of what is held back, the types, and a number: changes
    of the queue by transactions with a lower one were seen."""

    commands: list[HandedOut]
    held_back: int
    has_more: bool
    look_again_ms: int | None
    now_ms: int
    sealed_secret: bytes | None = None
    held_kinds: tuple[str, ...] = ()
    horizon: int = 0

    @property
    def again_seconds(self) -> float | None:
        return None if self.look_again_ms is None else (self.look_again_ms - self.now_ms) / 1000


class _Queue(msgspec.Struct, frozen=True):
    """Where a claim looks: at a whole site, or at one zone of it."""

    site_id: int
    zone_id: int | None


def claiming(trail: AuditTrail, options: ClaimOptions) -> HotOperation[Claim, Claimed]:
    """What polls call: those of one site are claimed for together."""
    return HotOperation(
        lambda conn, wanted: claim_all(conn, trail, options, wanted),
        about=lambda wanted: (SITE_LOCK, wanted.caller.site_id),
    )


def claim(conn: Connection, trail: AuditTrail, options: ClaimOptions, wanted: Claim) -> Claimed:
    """Hand the collector what it may have now, up to its limit."""
    (outcome,) = claim_all(conn, trail, options, [wanted])
    if isinstance(outcome, Failed):
        raise outcome.error
    return outcome


def claim_all(
    conn: Connection, trail: AuditTrail, options: ClaimOptions, wanted: Sequence[Claim]
) -> list[Claimed | Failed]:
    """The same for each of several polls, in their order."""
    conn.lock(SITE_LOCK, *(each.caller.site_id for each in wanted))
    queues = [_queue_of(conn, each) for each in wanted]
    sites = list({queue.site_id: None for queue in queues if isinstance(queue, _Queue)})
    quiet, looked = quiet_of(conn, sites), _look(conn, trail, wanted, queues)
    known = quiet()
    soonest, is_changed = settle_disturbed(conn, trail, sites, known)
    if is_changed:
        looked = _look(conn, trail, wanted, queues)
    claiming = _Claiming(conn, options, looked, soonest)
    outcomes = [
        queue if isinstance(queue, Failed) else claiming.serve(each, queue)
        for each, queue in zip(wanted, queues, strict=True)
    ]
    claiming.write_down(trail)
    note_quiet(conn, known, soonest)
    return [claiming.count_held_back(each) if isinstance(each, _Served) else each for each in outcomes]


class _Served(NamedTuple):
    """What a poll was handed; `full` are the windows that may hold something back from it."""

    claimed: Claimed
    queue: _Queue
    full: list[Window]


class _Looked(NamedTuple):
    """What was asked for all the polls in one go: told when called for."""

    credentials: Callable[[], dict[int, Credentials]]
    ready: Callable[[], dict[_Queue, list[_Ready]]]
    ends: Ends


def _look(conn: Connection, trail: AuditTrail, wanted: Sequence[Claim], queues: Sequence[_Queue | Failed]) -> _Looked:
    found = {queue for queue in queues if isinstance(queue, _Queue)}
    return _Looked(
        credentials_of(conn, {each.caller.device_id for each in wanted}),
        _ready(conn, wanted, found),
        trail.look(conn, {queue.site_id for queue in found}),
    )


class _Claiming:
    """What was read for all the polls together, and what has been taken of it so far."""

    def __init__(self, conn: Connection, options: ClaimOptions, looked: _Looked, soonest: Quiet) -> None:
        self._conn = conn
        self._now_ms = conn.now_ms
        self._is_signed = options.is_signed
        self._lease_until = conn.now_ms + options.lease_seconds * 1000
        self._ends = looked.ends
        self._credentials = looked.credentials()
        self._ready = looked.ready()
        self._types = {queue: {row.command_type for row in rows} for queue, rows in self._ready.items()}
        keys = {(queue.site_id, command_type) for queue, types in self._types.items() for command_type in types}
        self._windows = windows_of(conn, options.rates, keys) if keys else {}
        self._taken: set[int] = set()
        self._leases: list[tuple[Any, ...]] = []
        self._entries: list[AuditEntry] = []
        # When something at a site is next due, at the soonest.
        self._soonest = soonest

    def serve(self, wanted: Claim, queue: _Queue) -> Claimed | _Served | Failed:
        """Take for the poll what it may have."""
        site_id = queue.site_id
        chosen, has_more = self._choose(wanted, queue)
        credentials = self._credentials.get(wanted.caller.device_id)
        if chosen and (credentials is None or not credentials.holds_for(wanted.caller)):
            # Its token was good when it began to wait; only this transaction knows whether it still is.
            for row in chosen:
                self._windows[site_id, row.command_type].put_back()
            return Failed(NotAuthenticated("the collector's token has ended"))
        commands = [self._hand_out(wanted.caller, row) for row in chosen if self._is_live(row)]
        soonest = self._soonest[site_id]
        if commands:
            soonest = self._soonest[site_id] = min(self._lease_until, soonest or self._lease_until)
        secret = credentials.hmac_secret if credentials and self._is_signed and commands else None
        claimed = Claimed(commands, 0, has_more, soonest, self._now_ms, secret)
        windows = [self._windows[site_id, command_type] for command_type in self._types.get(queue, ())]
        full = [window for window in windows if window.left <= 0]
        return _Served(claimed, queue, full) if full else claimed

    def write_down(self, trail: AuditTrail) -> None:
        if self._leases:
            self._conn.run_rows(SQL.lease, self._leases)
            note_taken(self._conn, [window for window in self._windows.values() if window.taken])
            trail.record_all(self._conn, self._entries, self._ends)
        passing = {key for key, window in self._windows.items() if window.passes(RAISE_EVERY)}
        raise_marks(self._conn, self._ready.values(), self._taken, passing)

    def count_held_back(self, served: _Served) -> Claimed:
        """How many wait for a window, and when the first of those windows has room."""
        claimed, queue, full = served
        held_back, look_again_ms, kinds, horizon = 0, claimed.look_again_ms, [], 0
        for window in full:
            waiting, horizon = _waiting(self._conn, queue, window.command_type)
            if waiting:
                held_back += waiting
                kinds.append(window.command_type)
                at = window.frees_at_ms(self._now_ms)
                look_again_ms = at if look_again_ms is None else min(at, look_again_ms)
        return msgspec.structs.replace(
            claimed, held_back=held_back, look_again_ms=look_again_ms, held_kinds=tuple(sorted(kinds)), horizon=horizon
        )

    def _choose(self, wanted: Claim, queue: _Queue) -> tuple[list[_Ready], bool]:
        """Which to hand out, taken from their windows; and whether more could be."""
        chosen: list[_Ready] = []
        for row in self._ready.get(queue, ()):
            window = self._windows[queue.site_id, row.command_type]
            if window.left <= 0 or row.id in self._taken:
                continue
            if len(chosen) == wanted.limit:
                return chosen, True
            window.take()
            chosen.append(row)
        return chosen, False

    def _is_live(self, row: _Ready) -> bool:
        """Whether it may be handed out; not if it has expired, which more may have than settling takes in one go."""
        if row.expires_at > self._now_ms:
            return True
        self._windows[row.site_id, row.command_type].put_back()
        return False

    def _hand_out(self, caller: CollectorCaller, row: _Ready) -> HandedOut:
        now_ms, lease_until, nonce, attempt = self._now_ms, self._lease_until, new_nonce(), row.attempt + 1
        self._taken.add(row.id)
        self._leases.append((_DISPATCHED, caller.device_id, lease_until, now_ms, attempt, nonce, row.id))
        actor, detail = f"collector:{caller.device_id}", {"attempt": attempt, "lease_until": lease_until}
        self._entries.append(AuditEntry(row.site_id, actor, _EVENT, row.command_id, _PENDING, _DISPATCHED, detail))
        return HandedOut(
            row.command_id,
            row.site_id,
            row.zone_id,
            row.miner_id,
            row.command_type,
            row.params,
            row.priority,
            row.expires_at,
            row.dedupe_key,
            nonce,
            now_ms,
            lease_until,
            attempt,
            row.retry_count,
            row.max_retries,
            now_ms - row.ready_at if attempt == 1 else None,
        )


def _queue_of(conn: Connection, wanted: Claim) -> _Queue | Failed:
    """Where to look. A collector of one zone serves that zone only; nobody is told of zones of other sites."""
    site_id, own, asked = wanted.caller.site_id, wanted.caller.zone_id, wanted.zone_id
    if asked is None or asked == own:
        return _Queue(site_id, own)
    if own is not None or conn.one(SQL.zone_of_site, zone_id=asked, site_id=site_id) is None:
        return Failed(AccessDenied())
    return _Queue(site_id, asked)


def _ready(conn: Connection, wanted: Sequence[Claim], queues: set[_Queue]) -> Callable[[], dict[_Queue, list[_Ready]]]:
    """What each queue could hand out, in order: more of each type than all polls of its site want, to know if there
    are more."""
    limits: dict[int, int] = {}
    for each in wanted:
        limits[each.caller.site_id] = limits.get(each.caller.site_id, 1) + each.limit
    alike: dict[tuple[bool, int], list[int]] = {}
    for queue in queues:
        zone_id = queue.zone_id
        key = queue.site_id if zone_id is None else zone_id
        alike.setdefault((zone_id is None, limits[queue.site_id]), []).append(key)
    asked = [
        (
            is_site,
            conn.values_later(SQL.ready if is_site else SQL.ready_in_zone, keys=_encode(keys).decode(), limit=limit),
        )
        for (is_site, limit), keys in alike.items()
    ]
    return lambda: _in_order(asked)


def _in_order(asked: Iterable[tuple[bool, Callable[[], list[tuple[Any, ...]]]]]) -> dict[_Queue, list[_Ready]]:
    ready: dict[_Queue, list[_Ready]] = {}
    for is_site, rows in asked:
        for row in rows():
            found = _Ready(*row)
            ready.setdefault(_Queue(found.site_id, None if is_site else found.zone_id), []).append(found)
    for queue in ready.values():
        queue.sort()
    return ready


def _waiting(conn: Connection, queue: _Queue, command_type: str) -> tuple[int, int]:
    """How many wait, and the number below which every transaction is over."""
    row = conn.one(
        SQL.count_held_back if queue.zone_id is None else SQL.count_held_back_in_zone,
        site_id=queue.site_id,
        zone_id=queue.zone_id,
        command_type=command_type,
        count_max=HELD_BACK_COUNT_MAX,
    )
    return (int(row["count"]), int(row["horizon"])) if row else (0, 0)
