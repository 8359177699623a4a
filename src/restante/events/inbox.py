"""The inbox of each client: what is put in, what a poll is handed of it, and what it says of what it had.

    put ─▶ unsigned ─▶ ready ─▶ handed out, again and again ─▶ acknowledged ─▶ evicted
                                        └────────────────────▶ errored: kept, handed out no more unless so configured

Decides nothing about HTTP or waiting. Must always hold: what a poll acknowledges is done with before its events are
chosen, in the same transaction; events are handed out oldest first, the same bytes each time, and none overtakes one
that is still to be signed; an id that is unknown, or another client's, changes nothing and leaves no trace anywhere.

What has been sent is one mark for each client and profile, not one for each event: everything up to the mark has been.
So a poll that hands out what was handed out before has nothing to write down (`look`); one with news writes one row.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from restante.core.acknowledgement import NO_VERDICTS, Verdicts, how_many_fit, ready_before_unsigned
from restante.core.errors import NotAuthenticated, RestanteError
from restante.database.connection import Connection, Row
from restante.database.hot import Failed
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

OPEN_BANKING = "open-banking"
SHARED_SIGNALS = "shared-signals"

# Of one statement that puts events; no engine takes a gigabyte.
PIECE_CHARACTERS_MAX = 1024 * 1024
_PLACES_OF_A_CLIENT = 2**40
_NO_END = 2**63 - 1
_encoder = msgspec.json.Encoder()


class InboxChanged(NamedTuple):
    """Announced by a commit after which something may be ready for the client."""

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


class InboxOptions(NamedTuple):
    """How events are handed out."""

    redelivery_after_ms: int = 0
    redeliver_errored: bool = False
    answer_bytes_max: int = 4 * 1024 * 1024


class Wish(NamedTuple):
    """What a poll says and wants. Of no events it only hears whether there are any."""

    client: int
    limit: int
    verdicts: Verdicts = NO_VERDICTS
    profile: str = OPEN_BANKING


class Handed(NamedTuple):
    """What a poll is answered. Where it is handed nothing, `look_again_ms` is when that may change by itself."""

    sets: dict[str, str]
    more: bool
    now_ms: int
    look_again_ms: int | None = None
    acknowledged: int = 0
    errored: int = 0


def place_of(client: int, event: int) -> int:
    """Where an event's text lies: a client's side by side, in the order of its events."""
    return client * _PLACES_OF_A_CLIENT + event


def put(conn: Connection, events: Sequence[NewEvent]) -> None:
    """Add events to be signed, in their order."""
    for piece in _pieces(events):
        listed = _encoder.encode(piece).decode()
        conn.run_many(SQL.put, [{"events": listed, "now_ms": conn.now_ms}])
        conn.run_many(SQL.put_texts, [{"events": listed}])


def _pieces(events: Sequence[NewEvent]) -> Iterator[Sequence[NewEvent]]:
    """The events, so many at a time that a statement bears them: an event for everybody may be one for very many."""
    begin = characters = 0
    for end, event in enumerate(events):
        if characters and characters + len(event.claims) > PIECE_CHARACTERS_MAX:
            yield events[begin:end]
            begin, characters = end, 0
        characters += len(event.claims)
    if events:
        yield events[begin:]


def text_of(conn: Connection, client: int, event: int) -> str | None:
    """An event's claims while it is unsigned, then its token; None where there is no such event of this client."""
    row = conn.one(SQL.text_at, place=place_of(client, event))
    return None if row is None else str(row["text"])


def make_ready(conn: Connection, signed: Sequence[SignedEvent]) -> None:
    """Let signed events be handed out. One that is not waiting to be signed any more keeps its bytes."""
    alike: dict[tuple[str, int | None], list[SignedEvent]] = {}
    for event in signed:
        alike.setdefault((event.kid, event.push_at), []).append(event)
    for (kid, push_at), events in alike.items():
        ids = _encoder.encode([event.id for event in events]).decode()
        ready = {row["id"] for row in conn.all(SQL.make_ready, ids=ids, kid=kid, push_at=push_at)}
        texts = [(place_of(event.client, event.id), event.token) for event in events if event.id in ready]
        conn.run_many(SQL.set_text, [{"place": place, "text": text} for place, text in texts])
    for client in {event.client for event in signed}:
        conn.announce(InboxChanged(client))


def take_many(conn: Connection, options: InboxOptions, wishes: Sequence[Wish | None]) -> list[Handed | Failed | None]:
    """`take` for each; None for who has gone. In the order of their clients, as several writers lock those."""
    handed: list[Handed | Failed | None] = [None] * len(wishes)
    asked = sorted((wish.client, number) for number, wish in enumerate(wishes) if wish is not None)
    for _client, number in asked:
        wish = wishes[number]
        if wish is not None:
            try:
                handed[number] = take(conn, options, wish)
            except RestanteError as error:
                handed[number] = Failed(error)
    return handed


def take(conn: Connection, options: InboxOptions, wish: Wish) -> Handed:
    """Take what the poll says of earlier events, then hand it the oldest that are left."""
    is_changing = bool(wish.verdicts) or options.redelivery_after_ms > 0
    if conn.one(SQL.take_turn if is_changing else SQL.is_active, client=wish.client) is None:
        raise NotAuthenticated("the client is suspended")
    acknowledged, errored = judge(conn, wish.client, wish.verdicts)
    handed = _choose(conn, options, wish)
    chosen = handed.ids
    if chosen:
        if options.redelivery_after_ms:
            visible_at = conn.now_ms + options.redelivery_after_ms
            conn.run_many(SQL.open_window, [{"id": event, "visible_at": visible_at} for event in chosen])
        if chosen[-1] > _sent_through(conn, wish):
            conn.run(
                SQL.note_hand_out, client=wish.client, profile=wish.profile, through=chosen[-1], now_ms=conn.now_ms
            )
    return handed.answer._replace(acknowledged=acknowledged, errored=errored)


def look(conn: Connection, options: InboxOptions, wish: Wish) -> Handed | None:
    """As `take` for a poll that says nothing, on a snapshot; None if there is something to be written down."""
    if wish.verdicts or options.redelivery_after_ms:
        return None
    if conn.one(SQL.is_active, client=wish.client) is None:
        raise NotAuthenticated("the client is suspended")
    handed = _choose(conn, options, wish)
    if handed.ids and handed.ids[-1] > _sent_through(conn, wish):
        return None
    return handed.answer


def judge(conn: Connection, client: int, verdicts: Verdicts) -> tuple[int, int]:
    """Take in what a client says of its events; how many were acknowledged, how many are in error."""
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
    answer: Handed


def _choose(conn: Connection, options: InboxOptions, wish: Wish) -> _Choice:
    through = _open_through(conn, wish)
    rows = [row for row in _candidates(conn, options, wish) if row["id"] <= through] if wish.limit else []
    able = ready_before_unsigned([row["status"] for row in rows])
    sizes = [len(row["jti"]) + len(row["text"]) for row in rows[:able]]
    chosen = rows[: how_many_fit(sizes, wish.limit, options.answer_bytes_max)]
    if len(rows) > len(chosen):
        more = True
    elif wish.limit and not _hides_some(options):
        more = False
    else:
        more = _count(conn, options, wish, through, len(chosen) + 1) > len(chosen)
    look_again_ms = _next_visible(conn, options, wish) if more and not chosen and options.redelivery_after_ms else None
    sets = {row["jti"]: row["text"] for row in chosen}
    # Those that went wrong may be older than the newest that is handed out.
    ids = sorted(row["id"] for row in chosen)
    return _Choice(ids, Handed(sets, more, conn.now_ms, look_again_ms))


def _open_through(conn: Connection, wish: Wish) -> int:
    """The last event that may be handed out: a stream of shared signals that is stopped holds back what came later."""
    if wish.profile != SHARED_SIGNALS:
        return _NO_END
    row = conn.one(SQL.stream_of, client=wish.client)
    if row is None:
        return 0
    return _NO_END if row["status"] == "enabled" else int(row["open_through"] or 0)


def _hides_some(options: InboxOptions) -> bool:
    """Whether there may be events that are not acknowledged and not offered: in a window, or just found wrong."""
    return bool(options.redelivery_after_ms or options.redeliver_errored)


def _candidates(conn: Connection, options: InboxOptions, wish: Wish) -> list[Row]:
    """The oldest, one more than wanted, to know if there are more."""
    asked = {"client": wish.client, "profile": wish.profile, "now_ms": conn.now_ms}
    one_more = wish.limit + 1
    rows = conn.all(SQL.open_events, **asked, limit=one_more)
    if not options.redeliver_errored:
        return rows
    # What this poll calls wrong is not sent back in its own answer.
    found = conn.all(SQL.errored_events, **asked, limit=one_more + len(wish.verdicts.errored))
    errored = [row for row in found if row["jti"] not in wish.verdicts.errored]
    return sorted([*rows, *errored], key=lambda row: int(row["id"]))[:one_more]


def _count(conn: Connection, options: InboxOptions, wish: Wish, through: int, bound: int) -> int:
    asked = {"client": wish.client, "profile": wish.profile, "through": through, "limit": bound}
    queries = [SQL.count_open, *([SQL.count_errored] if options.redeliver_errored else [])]
    rows = (conn.one(query, **asked) for query in queries)
    return sum(int(row["count"]) for row in rows if row is not None)


def _next_visible(conn: Connection, options: InboxOptions, wish: Wish) -> int | None:
    asked = {"client": wish.client, "profile": wish.profile, "now_ms": conn.now_ms}
    queries = [SQL.next_visible, *([SQL.next_visible_errored] if options.redeliver_errored else [])]
    rows = (conn.one(query, **asked) for query in queries)
    return min((int(row["at"]) for row in rows if row is not None and row["at"] is not None), default=None)


def _sent_through(conn: Connection, wish: Wish) -> int:
    row = conn.one(SQL.sent_through, client=wish.client, profile=wish.profile)
    return 0 if row is None or row["through"] is None else int(row["through"])
