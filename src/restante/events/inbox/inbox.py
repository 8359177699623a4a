"""The inbox of each client: which events a poll gets, and how its acknowledgements change them.

    add_events ─▶ unsigned ─▶ ready ─▶ delivered, repeatedly ─▶ acknowledged ─▶ evicted
                                            └────────────────▶ errored: kept, delivered again only if so configured

Does not know HTTP or waiting.

Invariants:
- The acknowledgements of a poll are applied before its events are chosen, in the same transaction.
- Events are delivered oldest first, with the same bytes each time. No event overtakes one that is still unsigned.
- An id that is unknown, or belongs to another client, changes nothing and leaves no trace.

What was sent is recorded as one position per client and profile, not per event: everything up to it was sent. So a poll
that gets only events it was sent before has nothing to write (`read_inbox`), and one with new events writes one row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from restante.core.errors import InvalidToken, RestanteError
from restante.core.events.poll_acks import NO_VERDICTS, Verdicts, count_before_unsigned, count_fitting
from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.database.writer.batching import Failed

SQL = queries_beside(__file__)

OPEN_BANKING = "open-banking"
SHARED_SIGNALS = "shared-signals"

# In one statement that adds events: no engine accepts a gigabyte.
STATEMENT_CHARACTERS_MAX = 1024 * 1024
_PLACES_PER_CLIENT = 2**40
_NO_END = 2**63 - 1
_encoder = msgspec.json.Encoder()


class InboxChanged(ClusterMessage, frozen=True, tag="inbox"):
    """The client's inbox may hold a new event."""

    client: int


class NewEvent(NamedTuple):
    client: int
    jti: str
    txn: str
    event_types: str
    claims: str
    profile: str = OPEN_BANKING
    stream: int | None = None


class SignedEvent(NamedTuple):
    id: int
    client: int
    token: str
    kid: str
    push_at: int | None = None


@dataclass(frozen=True, slots=True)
class InboxOptions:
    """How events are delivered. With `redelivery_after_ms` 0 there is no delivery window."""

    redelivery_after_ms: int
    redeliver_errored: bool
    response_bytes_max: int


class InboxPollRequest(NamedTuple):
    """What a poll acknowledges and how many events it requests. With limit 0 it only gets whether there are any."""

    client: int
    limit: int
    verdicts: Verdicts = NO_VERDICTS
    profile: str = OPEN_BANKING


class InboxPollResult(NamedTuple):
    """The events for a poll. If there are none, `next_visible_ms` is when the first delivery window ends."""

    sets: dict[str, str]
    has_more: bool
    now_ms: int
    next_visible_ms: int | None = None
    acknowledged: int = 0
    errored: int = 0


def place_of(client: int, event: int) -> int:
    """The key of an event's text: the texts of a client are stored side by side, in the order of its events."""
    return client * _PLACES_PER_CLIENT + event


def add_events(conn: Connection, events: Sequence[NewEvent]) -> None:
    """Add events that are still to be signed, in this order."""
    for part in _in_parts(events):
        encoded = _encoder.encode(part).decode()
        conn.run_many(SQL.put, [{"events": encoded, "now_ms": conn.now_ms}])
        conn.run_many(SQL.put_texts, [{"events": encoded}])


def _in_parts(events: Sequence[NewEvent]) -> Iterator[Sequence[NewEvent]]:
    """The events in parts that fit into one statement: an event for all clients may be one for very many."""
    begin = characters = 0
    for end, event in enumerate(events):
        if characters and characters + len(event.claims) > STATEMENT_CHARACTERS_MAX:
            yield events[begin:end]
            begin, characters = end, 0
        characters += len(event.claims)
    if events:
        yield events[begin:]


def text_of(conn: Connection, client: int, event: int) -> str | None:
    """The token claims of an unsigned event, or the token of a signed one; None if the client has no such event."""
    row = conn.one(SQL.text_at, place=place_of(client, event))
    return None if row is None else str(row["text"])


def make_ready(conn: Connection, signed: Sequence[SignedEvent]) -> None:
    """Mark signed events as deliverable. An event that is no longer unsigned keeps its bytes."""
    by_key: dict[tuple[str, int | None], list[SignedEvent]] = {}
    for event in signed:
        by_key.setdefault((event.kid, event.push_at), []).append(event)
    for (kid, push_at), events in by_key.items():
        ids = _encoder.encode([event.id for event in events]).decode()
        ready = {event_id for (event_id,) in conn.values(SQL.make_ready, ids=ids, kid=kid, push_at=push_at)}
        texts = [(event.token, place_of(event.client, event.id)) for event in events if event.id in ready]
        conn.run_rows(SQL.set_text, texts)
    for client in {event.client for event in signed}:
        conn.add_commit_event(InboxChanged(client))


def poll_inboxes(
    conn: Connection, options: InboxOptions, requests: Sequence[InboxPollRequest | None]
) -> list[InboxPollResult | Failed | None]:
    """`poll_inbox` for each request; None for a client that has disconnected.

    Runs in the order of the clients: several writers lock client rows, and a common order avoids deadlocks.
    """
    results: list[InboxPollResult | Failed | None] = [None] * len(requests)
    in_order = sorted((request.client, number) for number, request in enumerate(requests) if request is not None)
    for _client, number in in_order:
        request = requests[number]
        if request is not None:
            try:
                results[number] = poll_inbox(conn, options, request)
            except RestanteError as error:
                results[number] = Failed(error)
    return results


def poll_inbox(conn: Connection, options: InboxOptions, request: InboxPollRequest) -> InboxPollResult:
    """Apply the poll's acknowledgements, then choose the oldest events that are left."""
    is_changing = bool(request.verdicts) or options.redelivery_after_ms > 0
    if conn.one(SQL.lock_active if is_changing else SQL.is_active, client=request.client) is None:
        raise InvalidToken("the client is suspended")
    acknowledged, errored = apply_verdicts(conn, request.client, request.verdicts)
    choice = _choose(conn, options, request)
    chosen = choice.ids
    if chosen:
        if options.redelivery_after_ms:
            visible_at = conn.now_ms + options.redelivery_after_ms
            conn.run_many(SQL.open_window, [{"id": event, "visible_at": visible_at} for event in chosen])
        if chosen[-1] > _sent_through(conn, request):
            conn.run(
                SQL.record_sent, client=request.client, profile=request.profile, through=chosen[-1], now_ms=conn.now_ms
            )
    return choice.result._replace(acknowledged=acknowledged, errored=errored)


def read_inbox(conn: Connection, options: InboxOptions, request: InboxPollRequest) -> InboxPollResult | None:
    """As `poll_inbox` for a poll without acknowledgements, on a snapshot; None if something has to be written."""
    if request.verdicts or options.redelivery_after_ms:
        return None
    if conn.one(SQL.is_active, client=request.client) is None:
        raise InvalidToken("the client is suspended")
    choice = _choose(conn, options, request)
    if choice.ids and choice.ids[-1] > _sent_through(conn, request):
        return None
    return choice.result


def apply_verdicts(conn: Connection, client: int, verdicts: Verdicts) -> tuple[int, int]:
    """Apply a client's acknowledgements and errors; return how many events were acknowledged and how many errored."""
    acknowledged, faults = verdicts
    count = errored = 0
    if acknowledged:
        jtis = _encoder.encode(acknowledged).decode()
        count = conn.run(SQL.acknowledge, client=client, jtis=jtis, now_ms=conn.now_ms)
    for jti, fault in faults.items():
        errored += conn.run(
            SQL.set_error,
            client=client,
            jti=jti,
            err=fault.err,
            description=fault.description,
            now_ms=conn.now_ms,
        )
    return count, errored


class _Choice(NamedTuple):
    ids: list[int]
    result: InboxPollResult


def _choose(conn: Connection, options: InboxOptions, request: InboxPollRequest) -> _Choice:
    through = _open_through(conn, request)
    rows = [row for row in _candidates(conn, options, request) if row["id"] <= through] if request.limit else []
    deliverable = count_before_unsigned([row["status"] for row in rows])
    sizes = [len(row["jti"]) + len(row["text"]) for row in rows[:deliverable]]
    chosen = rows[: count_fitting(sizes, request.limit, options.response_bytes_max)]
    if len(rows) > len(chosen):
        has_more = True
    elif request.limit and not _may_hide_events(options):
        has_more = False
    else:
        has_more = _count(conn, options, request, through, len(chosen) + 1) > len(chosen)
    next_visible_ms = None
    if has_more and not chosen and options.redelivery_after_ms:
        next_visible_ms = _next_visible(conn, options, request)
    sets = {row["jti"]: row["text"] for row in chosen}
    # Errored events that are delivered again may be older than the newest one.
    ids = sorted(row["id"] for row in chosen)
    return _Choice(ids, InboxPollResult(sets, has_more, conn.now_ms, next_visible_ms))


def _open_through(conn: Connection, request: InboxPollRequest) -> int:
    """The last event that may be delivered: a stopped Shared Signals stream holds back later events."""
    if request.profile != SHARED_SIGNALS:
        return _NO_END
    row = conn.one(SQL.stream_of, client=request.client)
    if row is None:
        return 0
    return _NO_END if row["status"] == "enabled" else int(row["open_through"] or 0)


def _may_hide_events(options: InboxOptions) -> bool:
    """Whether unacknowledged events may not be offered: in a delivery window, or reported as errored by this poll."""
    return bool(options.redelivery_after_ms or options.redeliver_errored)


def _candidates(conn: Connection, options: InboxOptions, request: InboxPollRequest) -> list[Row]:
    """The oldest events, one more than the limit, to know if there are more."""
    parameters = {"client": request.client, "profile": request.profile, "now_ms": conn.now_ms}
    one_more = request.limit + 1
    rows = conn.all(SQL.open_events, **parameters, limit=one_more)
    if not options.redeliver_errored:
        return rows
    # Events that this poll reports as errored are not in its own response.
    found = conn.all(SQL.errored_events, **parameters, limit=one_more + len(request.verdicts.errored))
    errored = [row for row in found if row["jti"] not in request.verdicts.errored]
    return sorted([*rows, *errored], key=lambda row: int(row["id"]))[:one_more]


def _count(conn: Connection, options: InboxOptions, request: InboxPollRequest, through: int, bound: int) -> int:
    parameters = {"client": request.client, "profile": request.profile, "through": through, "limit": bound}
    queries = [SQL.count_open, *([SQL.count_errored] if options.redeliver_errored else [])]
    rows = (conn.one(query, **parameters) for query in queries)
    return sum(int(row["count"]) for row in rows if row is not None)


def _next_visible(conn: Connection, options: InboxOptions, request: InboxPollRequest) -> int | None:
    parameters = {"client": request.client, "profile": request.profile, "now_ms": conn.now_ms}
    queries = [SQL.next_visible, *([SQL.next_visible_errored] if options.redeliver_errored else [])]
    rows = (conn.one(query, **parameters) for query in queries)
    return min((int(row["at"]) for row in rows if row is not None and row["at"] is not None), default=None)


def _sent_through(conn: Connection, request: InboxPollRequest) -> int:
    row = conn.one(SQL.sent_through, client=request.client, profile=request.profile)
    return 0 if row is None or row["through"] is None else int(row["through"])
