"""Claiming: which commands the polls of collectors get. One write transaction serves a batch of claims.

    apply settlement ─▶ read ready commands ─▶ hold those of busy miners
                     ─▶ by rank, while the type's rate window has room ─▶ lease · count · audit

The cost of a claim grows with the number of commands it leases, not with the number that wait. The claims of a batch
are served one after another from commands that were read for all of them. Each gets what it would get in its own
transaction.

Invariants:
- A rate window is checked and counted in the same transaction, so concurrent claims never exceed its limit.
- The transaction that raises a command's attempt also leases it, so each attempt has one lease owner.
- A collector whose token was revoked or replaced gets no command, however long ago its poll began.
- With `is_one_lease_per_miner`, a miner has at most one leased command: see `busy_miners`.
- Every dispatched command has the parameter names that collectors read. A command that an older version stored under
  other names is renamed first, or cancelled if that is not possible.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail, ChainEnds
from restante.commands.dispatch.busy_miners import commands_to_hold, hold, release_miners
from restante.commands.dispatch.next_due import NextDueTimes, prefetch_next_due, store_next_due
from restante.commands.dispatch.rate_limits import (
    RateRules,
    RateWindow,
    Windows,
    prefetch_windows,
    read_windows,
    record_dispatches,
)
from restante.commands.dispatch.ready_commands import (
    CommandQueue,
    ReadyCommand,
    ReadyTypes,
    count_waiting,
    prefetch_ready,
)
from restante.commands.dispatch.ready_watermarks import RAISE_EVERY, raise_watermarks
from restante.commands.dispatch.settlement import SYSTEM, apply_settlement_if_due
from restante.commands.errors import AccessDenied
from restante.commands.lifecycle.command_types import params_digest, readable_params
from restante.commands.lifecycle.ordering import SITE_LOCK, CommandsChanged
from restante.commands.sites.collectors import Credentials, credentials_of
from restante.core.commands.command_states import Event, State, next_state
from restante.core.errors import BadInput, InvalidToken
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.database.writer.batching import BatchOperation, Failed
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)

_DISPATCHED = next_state(State.pending, Event.dispatch).value
_PENDING = State.pending.value
_CANCELLED = next_state(State.pending, Event.cancel).value
_EVENT = f"command.{Event.dispatch}"
# Bounds how many commands of busy miners one batch holds; the next claim holds the rest.
HOLD_ROUNDS_MAX = 4
HOLD_ROWS = 200
RENAMED_EVENT = "command.params_renamed"
# The result code of a command whose stored parameters no collector could read.
PARAMS_UNREADABLE = "PARAMS_UNREADABLE"
# A version 4 UUID: the top two bits of this digit are the variant, the other two are random.
_UUID_VARIANTS = "89ab"


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    lease_seconds: int
    rates: RateRules
    is_signed: bool
    is_one_lease_per_miner: bool


class ClaimRequest(msgspec.Struct, frozen=True):
    """A collector's request for up to `limit` commands: of its whole site, or of one zone."""

    caller: CollectorCaller
    zone_id: int | None
    limit: int


class DispatchedCommand(msgspec.Struct, frozen=True):
    """A command with its lease. `params` is JSON text, where secret values are masked: see `secret_params`.
    `waited_ms`: how long the command was ready before it was dispatched; None for a retry, where that is unknown."""

    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    command_type: str
    params: str
    sealed_params: bytes | None
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


class ClaimResult(msgspec.Struct, frozen=True):
    """`next_due_ms`: when there may be more commands without any further change; None: never.
    `sealed_secret`: the secret to sign the commands with. `rate_limited_types`: the types of the commands that wait for
    a rate window. `horizon`: all transactions with a lower id were visible to this claim."""

    commands: list[DispatchedCommand]
    rate_limited_count: int
    has_more: bool
    next_due_ms: int | None
    now_ms: int
    sealed_secret: bytes | None = None
    rate_limited_types: tuple[str, ...] = ()
    horizon: int = 0

    @property
    def seconds_until_due(self) -> float | None:
        return None if self.next_due_ms is None else (self.next_due_ms - self.now_ms) / 1000


class _RateLimitedClaim(NamedTuple):
    """A claim whose queue has types with a full rate window: their waiting commands are still to be counted."""

    result: ClaimResult
    queue: CommandQueue
    full_windows: list[RateWindow]


class _Prefetch(NamedTuple):
    """Reads for the whole batch that were started together; each function yields its result.

    `limits`: by site, how many commands of each type in each zone `ready` reads. `windows`: of the types that are
    expected to be ready.
    """

    queues: set[CommandQueue]
    limits: dict[int, int]
    credentials: Callable[[], dict[int, Credentials]]
    ready: Callable[[], dict[CommandQueue, list[ReadyCommand]]]
    windows: Callable[[], Windows]
    chain_ends: ChainEnds


class LeaseRow(NamedTuple):
    """The parameters of the query `lease`, in the order in which it names them."""

    status: str
    device_id: int
    lease_until: int
    now_ms: int
    attempt: int
    nonce: str
    id: int


def claim_operation(trail: AuditTrail, options: ClaimOptions) -> BatchOperation[ClaimRequest, ClaimResult]:
    """The batched operation that polls submit their claims to. Claims of one site are served together."""
    ready_types = ReadyTypes()
    return BatchOperation(
        lambda conn, requests: claim_all(conn, trail, options, requests, ready_types),
        lock_key=lambda request: (SITE_LOCK, request.caller.site_id),
    )


def claim(
    conn: Connection,
    trail: AuditTrail,
    options: ClaimOptions,
    request: ClaimRequest,
    ready_types: ReadyTypes | None = None,
) -> ClaimResult:
    """Lease to the collector the commands that it may have now, up to its limit."""
    (outcome,) = claim_all(conn, trail, options, [request], ready_types)
    if isinstance(outcome, Failed):
        raise outcome.error
    return outcome


def claim_all(
    conn: Connection,
    trail: AuditTrail,
    options: ClaimOptions,
    requests: Sequence[ClaimRequest],
    ready_types: ReadyTypes | None = None,
) -> list[ClaimResult | Failed]:
    """Serve several claims in their order."""
    ready_types = ready_types or ReadyTypes()
    conn.lock(SITE_LOCK, *(request.caller.site_id for request in requests))
    queues = [_queue_of(conn, request) for request in requests]
    sites = list({queue.site_id: None for queue in queues if isinstance(queue, CommandQueue)})
    known_times = prefetch_next_due(conn, sites)
    prefetch = _prefetch(conn, trail, options, requests, queues, ready_types)
    known = known_times()
    next_due, has_changed = apply_settlement_if_due(conn, trail, sites, known)
    if has_changed:
        prefetch = _prefetch(conn, trail, options, requests, queues, ready_types)
    batch = _ClaimBatch(conn, options, prefetch, next_due)
    ready_types.remember(sites, batch.ready_types)
    outcomes = [
        queue if isinstance(queue, Failed) else batch.serve(request, queue)
        for request, queue in zip(requests, queues, strict=True)
    ]
    batch.write(trail)
    store_next_due(conn, known, next_due)
    return [batch.count_rate_limited(each) if isinstance(each, _RateLimitedClaim) else each for each in outcomes]


def new_nonce() -> str:
    """A random UUID (version 4), which proves that an ACK belongs to one attempt.

    `uuid.uuid4()` builds an object first and takes four times as long; every dispatch needs a nonce.
    """
    digits = os.urandom(16).hex()
    variant = _UUID_VARIANTS[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class _ClaimBatch:
    """The commands and rate windows that were read for a batch of claims, and what the claims have taken from them."""

    def __init__(self, conn: Connection, options: ClaimOptions, prefetch: _Prefetch, next_due: NextDueTimes) -> None:
        self._conn = conn
        self._now_ms = conn.now_ms
        self._is_signed = options.is_signed
        self._lease_until = conn.now_ms + options.lease_seconds * 1000
        self._chain_ends = prefetch.chain_ends
        self._credentials = prefetch.credentials()
        self._ready = prefetch.ready()
        self._windows = prefetch.windows()
        self.ready_types = {(row.site_id, row.command_type) for rows in self._ready.values() for row in rows}
        unexpected = self.ready_types - self._windows.keys()
        if unexpected:
            self._windows |= read_windows(conn, options.rates, unexpected)
        # Commands of this batch that are not ready any more.
        self._leased_ids: set[int] = set()
        self._leases: list[LeaseRow] = []
        self._entries: list[AuditEntry] = []
        # The parameters and ids of renamed commands; the message and ids of cancelled ones.
        self._renamed: list[tuple[str, int]] = []
        self._unreadable: list[tuple[str, ReadyCommand]] = []
        self._next_due = next_due
        self._is_one_lease_per_miner = options.is_one_lease_per_miner
        # Miners that got a lease in this batch, and commands that were passed over because of one.
        self._leased_miners: set[int | None] = set()
        self._passed_over: list[ReadyCommand] = []
        # Sites and types of commands that this batch has held: claims should not step over them.
        self._held_types: set[tuple[int, str]] = set()
        # Sites where more commands are to be held than one batch may hold.
        self._unfinished_sites: set[int] = set()
        if options.is_one_lease_per_miner:
            self._hold_commands(prefetch)
        self._types = {queue: {row.command_type for row in rows} for queue, rows in self._ready.items()}

    def serve(self, request: ClaimRequest, queue: CommandQueue) -> ClaimResult | _RateLimitedClaim | Failed:
        """Lease commands to the claim; `write` makes the leases part of the transaction."""
        site_id = queue.site_id
        selected, has_more = self._select(request, queue)
        credentials = self._credentials.get(request.caller.device_id)
        if selected and (credentials is None or not credentials.match_token_of(request.caller)):
            # The token was valid when the poll began. It is checked again in the transaction that leases.
            for row in selected:
                self._windows[site_id, row.command_type].release()
            return Failed(InvalidToken("the collector's token was revoked or replaced"))
        commands = [self._dispatch(request.caller, row) for row in selected if self._is_unexpired(row)]
        next_due = self._next_due[site_id]
        if commands:
            next_due = self._next_due[site_id] = min(self._lease_until, next_due or self._lease_until)
        secret = credentials.hmac_secret if credentials and self._is_signed and commands else None
        has_more = has_more or site_id in self._unfinished_sites
        result = ClaimResult(commands, 0, has_more, next_due, self._now_ms, secret)
        windows = [self._windows[site_id, command_type] for command_type in self._types[queue]]
        full_windows = [window for window in windows if window.left <= 0]
        return _RateLimitedClaim(result, queue, full_windows) if full_windows else result

    def write(self, trail: AuditTrail) -> None:
        if self._leases:
            self._conn.run_rows(SQL.lease, self._leases)
            record_dispatches(self._conn, [window for window in self._windows.values() if window.acquired])
        self._conn.run_rows(SQL.rename_params, self._renamed)
        self._hold([row for row in self._passed_over if row.miner_id in self._leased_miners])
        rows = [(self._now_ms, message, row.id) for message, row in self._unreadable]
        self._conn.run_rows(SQL.cancel_unreadable, rows)
        if self._entries:
            trail.record_all(self._conn, self._entries, self._chain_ends)
        to_raise = {key for key, window in self._windows.items() if window.passes_multiple_of(RAISE_EVERY)}
        to_raise |= self._held_types
        raise_watermarks(self._conn, self._ready.values(), self._leased_ids, to_raise)
        # After the watermarks: a released command must not be below its own.
        self._release_after_cancelled()

    def count_rate_limited(self, claim: _RateLimitedClaim) -> ClaimResult:
        """Add how many commands wait for a full window, and when the first of those windows has room again."""
        result, queue, full_windows = claim
        total, next_due_ms, types, horizon = 0, result.next_due_ms, [], 0
        for window in full_windows:
            zones = {row.zone_id for row in self._ready[queue] if row.command_type == window.command_type}
            waiting, horizon = count_waiting(self._conn, zones, window.command_type)
            if waiting:
                total += waiting
                types.append(window.command_type)
                frees_at_ms = window.frees_at_ms(self._now_ms)
                next_due_ms = frees_at_ms if next_due_ms is None else min(frees_at_ms, next_due_ms)
        return msgspec.structs.replace(
            result,
            rate_limited_count=total,
            next_due_ms=next_due_ms,
            rate_limited_types=tuple(sorted(types)),
            horizon=horizon,
        )

    def _select(self, request: ClaimRequest, queue: CommandQueue) -> tuple[list[ReadyCommand], bool]:
        """The commands for a claim, already acquired from their rate windows; and whether the queue has more."""
        selected: list[ReadyCommand] = []
        miners: set[int | None] = set()
        for row in self._ready[queue]:
            window = self._windows[queue.site_id, row.command_type]
            if window.left <= 0 or row.id in self._leased_ids:
                continue
            if self._is_one_lease_per_miner and self._waits_for_miner(row, miners):
                self._passed_over.append(row)
                continue
            if len(selected) == request.limit:
                return selected, True
            readable = self._readable(row)
            if readable is not None:
                window.acquire()
                selected.append(readable)
                miners.add(row.miner_id)
        return selected, False

    def _readable(self, row: ReadyCommand) -> ReadyCommand | None:
        """The command with the parameter names that collectors read; None if it had to be cancelled."""
        try:
            params = readable_params(row.command_type, row.params)
        except BadInput as error:
            self._cancel_unreadable(row, error)
            return None
        if params == row.params:
            return row
        self._renamed.append((params, row.id))
        detail = {"params_sha256": params_digest(params), "params_sha256_before": params_digest(row.params)}
        self._entries.append(AuditEntry(row.site_id, SYSTEM, RENAMED_EVENT, row.command_id, _PENDING, _PENDING, detail))
        return msgspec.structs.replace(row, params=params)

    def _cancel_unreadable(self, row: ReadyCommand, error: BadInput) -> None:
        self._leased_ids.add(row.id)
        self._unreadable.append((error.message, row))
        detail = {"result_code": PARAMS_UNREADABLE, "reason": error.message}
        event = f"command.{Event.cancel}"
        self._entries.append(AuditEntry(row.site_id, SYSTEM, event, row.command_id, _PENDING, _CANCELLED, detail))

    def _waits_for_miner(self, row: ReadyCommand, selected: set[int | None]) -> bool:
        miner_id = row.miner_id
        return miner_id is not None and (
            bool(row.is_miner_busy) or miner_id in selected or miner_id in self._leased_miners
        )

    def _hold_commands(self, prefetch: _Prefetch) -> None:
        """Hold the ready commands that must wait for another command of their miner, and read those that come after
        them. Afterwards each miner has one ready command of each type."""
        limits = prefetch.limits
        for _ in range(HOLD_ROUNDS_MAX):
            to_hold = commands_to_hold(self._ready.values(), self._has_room)
            self._hold(to_hold)
            if not self._may_hide_others(to_hold, limits):
                return
            limits = {site_id: max(limit, HOLD_ROWS) for site_id, limit in limits.items()}
            self._ready = prefetch_ready(self._conn, prefetch.queues, limits, is_one_lease_per_miner=True)()
        self._unfinished_sites = {row.site_id for row in commands_to_hold(self._ready.values(), self._has_room)}

    def _has_room(self, row: ReadyCommand) -> bool:
        return self._windows[row.site_id, row.command_type].left > 0

    def _hold(self, rows: Sequence[ReadyCommand]) -> None:
        to_hold = {row.id: row for row in rows if row.site_id not in self._unfinished_sites}
        if to_hold:
            check_at = hold(self._conn, to_hold.values())
            self._leased_ids.update(to_hold)
            self._held_types.update((row.site_id, row.command_type) for row in to_hold.values())
            for site_id in {row.site_id for row in to_hold.values()}:
                self._next_due[site_id] = min(check_at, self._next_due[site_id] or check_at)

    def _may_hide_others(self, held: Sequence[ReadyCommand], limits: Mapping[int, int]) -> bool:
        """Whether more commands of their type and zone may be ready than were read."""
        if not held:
            return False
        distinct = {row.id: row for rows in self._ready.values() for row in rows}
        read = Counter((row.zone_id, row.command_type) for row in distinct.values())
        return any(read[row.zone_id, row.command_type] >= limits[row.site_id] for row in held)

    def _release_after_cancelled(self) -> None:
        if release_miners(self._conn, (row.miner_id for _, row in self._unreadable)):
            for site_id in {row.site_id for _, row in self._unreadable}:
                self._conn.add_commit_event(CommandsChanged(site_id))

    def _is_unexpired(self, row: ReadyCommand) -> bool:
        """Settlement is bounded and may have left expired commands over: they go back to their window."""
        if row.expires_at > self._now_ms:
            return True
        self._windows[row.site_id, row.command_type].release()
        return False

    def _dispatch(self, caller: CollectorCaller, row: ReadyCommand) -> DispatchedCommand:
        now_ms, lease_until, nonce, attempt = self._now_ms, self._lease_until, new_nonce(), row.attempt + 1
        self._leased_ids.add(row.id)
        self._leased_miners.add(row.miner_id)
        self._leases.append(LeaseRow(_DISPATCHED, caller.device_id, lease_until, now_ms, attempt, nonce, row.id))
        actor, detail = f"collector:{caller.device_id}", {"attempt": attempt, "lease_until": lease_until}
        self._entries.append(AuditEntry(row.site_id, actor, _EVENT, row.command_id, _PENDING, _DISPATCHED, detail))
        return DispatchedCommand(
            command_id=row.command_id,
            site_id=row.site_id,
            zone_id=row.zone_id,
            miner_id=row.miner_id,
            command_type=row.command_type,
            params=row.params,
            sealed_params=row.sealed_params,
            priority=row.priority,
            expires_at=row.expires_at,
            dedupe_key=row.dedupe_key,
            nonce=nonce,
            signed_at=now_ms,
            lease_until=lease_until,
            attempt=attempt,
            retry_count=row.retry_count,
            max_retries=row.max_retries,
            waited_ms=now_ms - row.ready_at if attempt == 1 else None,
        )


def _queue_of(conn: Connection, request: ClaimRequest) -> CommandQueue | Failed:
    """The queue of a claim. A collector of one zone may claim in that zone only.

    A missing zone and another site's zone are refused alike.
    """
    site_id, own_zone, zone_id = request.caller.site_id, request.caller.zone_id, request.zone_id
    if zone_id is None or zone_id == own_zone:
        return CommandQueue(site_id, own_zone)
    if own_zone is not None or conn.one(SQL.zone_of_site, zone_id=zone_id, site_id=site_id) is None:
        return Failed(AccessDenied())
    return CommandQueue(site_id, zone_id)


def _prefetch(
    conn: Connection,
    trail: AuditTrail,
    options: ClaimOptions,
    requests: Sequence[ClaimRequest],
    outcomes: Sequence[CommandQueue | Failed],
    ready_types: ReadyTypes,
) -> _Prefetch:
    queues = {queue for queue in outcomes if isinstance(queue, CommandQueue)}
    # One more than all claims of the site request together: shows whether there are more.
    limits: dict[int, int] = {}
    for request in requests:
        limits[request.caller.site_id] = limits.get(request.caller.site_id, 1) + request.limit
    sites = {queue.site_id for queue in queues}
    return _Prefetch(
        queues,
        limits,
        credentials_of(conn, {request.caller.device_id for request in requests}),
        prefetch_ready(conn, queues, limits, is_one_lease_per_miner=options.is_one_lease_per_miner),
        prefetch_windows(conn, options.rates, ready_types.expected(sites)),
        trail.prefetch_ends(conn, sites),
    )
