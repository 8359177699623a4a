"""Events for operators: filtered lists, newest first, and one event with its token claims and its deliveries.

Operators see the token claims, never the signed token: that belongs to the client.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from restante.core.errors import NotFound
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import Condition, FilteredList, StateCounting, among, between, equal
from restante.database.paging import Page, PageRequest
from restante.database.queries import queries_beside
from restante.events.clients import client_scope
from restante.events.inbox import inbox
from restante.events.signing import jws
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

EventStatus = Literal["unsigned", "ready", "acknowledged", "errored", "dropped"]
STATUSES: tuple[str, ...] = get_args(EventStatus)
_COLUMNS = "i.*, c.client_id"


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    jti: str
    client_id: str
    txn: str
    event_types: list[str]
    profile: str
    status: str
    kid: str | None
    created_at: Timestamp
    finished_at: Timestamp | None
    errored_at: Timestamp | None
    err: str | None
    err_description: str | None


class EventDetail(EventView, frozen=True, kw_only=True):
    """An event with its token claims, its first delivery by a poll, and its failed pushes: `push_attempts` since it was
    last released or delivered again, `failed_pushes` the times of the last hundred of all.

    Later deliveries by polls are not recorded: a poll that gets only events that it got before writes nothing."""

    claims: dict[str, Any]
    first_polled_at: Timestamp | None
    push_attempts: int
    push_due_at: Timestamp | None
    push_problem: str | None
    failed_pushes: list[Timestamp]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A field that is None does not filter. `since_ms` <= publication < `until_ms`."""

    client_id: str | None = None
    status: str | None = None
    txn: str | None = None
    profile: str | None = None
    err: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None


def list_page(
    conn: Connection, filters: EventFilter, window: PageRequest, allowed: AllowedIds = ALL_IDS
) -> Page[EventView]:
    """A page of the events of one client, or of all allowed ones."""
    return filtered_list.read(conn, filtered(conn, filters, allowed), window, view)


def counting(filters: EventFilter, allowed: AllowedIds = ALL_IDS) -> StateCounting:
    """Counts the events of the allowed clients that match, in each state."""
    return StateCounting(lambda conn: filtered(conn, filters, allowed), "i.status", STATUSES)


def filtered(conn: Connection, filters: EventFilter, allowed: AllowedIds) -> FilteredList:
    """The list of the events that match.

    A client's open and errored events have indexes of their own. Its other events are found by their texts, which are
    adjacent, so that other clients' rows are not read. Otherwise all events are read, newest first.
    """
    rest = (
        *equal("i.txn", filters.txn),
        *equal("i.profile", filters.profile),
        *equal("i.err", filters.err),
        *between("i.created_at", filters.since_ms, filters.until_ms),
    )
    of_status = equal("i.status", filters.status)
    if filters.client_id is None:
        clients = among("i.client", client_scope.row_ids(conn, allowed))
        return _inbox((), (*clients, *of_status, *rest))
    check_client(allowed, filters.client_id)
    client = client_row_id(conn, filters.client_id)
    of_client = equal("i.client", client)
    match filters.status:
        case "errored":
            return _inbox((*of_client, Condition("i.status = 'errored'")), rest)
        case "unsigned" | "ready":
            return _inbox((*of_client, Condition("i.status IN ('unsigned', 'ready')")), (*of_status, *rest))
    # The place of a text is the first place of the client and the id of the event.
    first = inbox.place_of(client, 0)
    return FilteredList(
        _COLUMNS,
        "event_texts AS t JOIN event_inbox AS i ON i.id = t.place - CAST(:first AS BIGINT)"
        " JOIN event_clients AS c ON c.id = i.client",
        "t.place",
        offset=first,
        rest=(*of_status, *rest),
        index_source="event_texts AS t",
        above=first,
        below=inbox.place_of(client + 1, 0),
        parameters={"first": first},
    )


def _inbox(indexed: tuple[Condition, ...], rest: tuple[Condition, ...]) -> FilteredList:
    source = "event_inbox AS i JOIN event_clients AS c ON c.id = i.client"
    return FilteredList(_COLUMNS, source, "i.id", indexed=indexed, rest=rest, index_source="event_inbox AS i")


def show(conn: Connection, jti: str, allowed: AllowedIds = ALL_IDS) -> EventDetail:
    row = conn.one(SQL.event, jti=jti)
    if row is None or row["client_id"] not in allowed:
        raise NotFound(f"there is no event {jti}")
    text = inbox.text_of(conn, row["client"], row["id"]) or "{}"
    polled = conn.one(SQL.first_polled, client=row["client"], profile=row["profile"], id=row["id"])
    return EventDetail(
        **msgspec.structs.asdict(view(row)),
        claims=msgspec.json.decode(text if text.startswith("{") else jws.payload_of(text)),
        first_polled_at=None if polled is None else iso_precise(polled["sent_at"]),
        push_attempts=row["push_attempts"],
        push_due_at=iso_precise(row["push_at"]),
        push_problem=row["push_problem"],
        failed_pushes=[iso_precise(int(at)) for at in (row["push_times"] or "").split(",") if at],
    )


def client_row_id(conn: Connection, client_id: str) -> int:
    row = conn.one(SQL.client, client_id=client_id)
    if row is None:
        raise NotFound(_no_client(client_id))
    return int(row["id"])


def check_client(allowed: AllowedIds, client_id: str) -> None:
    """Refuse a client outside the caller's grants like a missing one."""
    client_scope.check_client(allowed, client_id, _no_client(client_id))


def _no_client(client_id: str) -> str:
    return f"there is no client {client_id}"


def view(row: Row) -> EventView:
    return EventView(
        jti=row["jti"],
        client_id=row["client_id"],
        txn=row["txn"],
        event_types=msgspec.json.decode(row["event_types"]),
        profile=row["profile"],
        status=row["status"],
        kid=row["kid"],
        created_at=iso_precise(row["created_at"]),
        finished_at=iso_precise(row["finished_at"]),
        errored_at=iso_precise(row["errored_at"]),
        err=row["err"],
        err_description=row["err_description"],
    )
