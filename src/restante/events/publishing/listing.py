"""Events for operators: filtered lists, newest first, and one event with its token claims and its deliveries.

Operators see the token claims, never the signed token: that belongs to the client.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from restante.core.decoding import INT64_MAX
from restante.core.errors import NotFound
from restante.core.iso_time import iso, iso_or_none
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.events.clients import client_scope
from restante.events.inbox import inbox
from restante.events.signing import jws
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

EventStatus = Literal["unsigned", "ready", "acknowledged", "errored", "dropped"]
STATUSES: tuple[str, ...] = get_args(EventStatus)


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    jti: str
    client_id: str
    txn: str
    event_types: list[str]
    profile: str
    status: str
    kid: str | None
    created_at: str
    finished_at: str | None
    errored_at: str | None
    err: str | None
    err_description: str | None


class EventDetail(EventView, frozen=True, kw_only=True):
    """An event with its token claims, its first delivery by a poll, and its push attempts."""

    claims: dict[str, Any]
    first_polled_at: str | None
    push_attempts: int
    push_due_at: str | None
    push_problem: str | None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A field that is None does not filter."""

    client_id: str | None = None
    status: str | None = None
    txn: str | None = None


def list_page(
    conn: Connection, filters: EventFilter, window: PageRequest, allowed: AllowedIds = ALL_IDS
) -> Page[EventView]:
    """A page of the events of one client, or of all allowed ones."""
    before = window.after or INT64_MAX
    bound = {"status": filters.status, "txn": filters.txn, "limit": window.limit + 1}
    if filters.client_id is None:
        clients = client_scope.row_ids(conn, allowed)
        return page_of(conn.all(SQL.events, before=before, clients=clients, **bound), window, "id", view)
    check_client(allowed, filters.client_id)
    client = client_row_id(conn, filters.client_id)
    match filters.status:
        case "errored":
            rows = conn.all(SQL.errored_of_client, client=client, before=before, **bound)
        case "unsigned" | "ready":
            rows = conn.all(SQL.open_of_client, client=client, before=before, **bound)
        case _:
            first, end = inbox.place_of(client, 0), inbox.place_of(client + 1, 0)
            place = min(first + min(before, end), end)
            rows = conn.all(SQL.events_of_client, client=client, first=first, before=place, **bound)
    return page_of(rows, window, "id", view)


def show(conn: Connection, jti: str, allowed: AllowedIds = ALL_IDS) -> EventDetail:
    row = conn.one(SQL.event, jti=jti)
    if row is None or row["client_id"] not in allowed:
        raise NotFound(f"there is no event {jti}")
    text = inbox.text_of(conn, row["client"], row["id"]) or "{}"
    polled = conn.one(SQL.first_polled, client=row["client"], profile=row["profile"], id=row["id"])
    return EventDetail(
        **msgspec.structs.asdict(view(row)),
        claims=msgspec.json.decode(text if text.startswith("{") else jws.payload_of(text)),
        first_polled_at=None if polled is None else iso(polled["sent_at"]),
        push_attempts=row["push_attempts"],
        push_due_at=iso_or_none(row["push_at"]),
        push_problem=row["push_problem"],
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
        created_at=iso(row["created_at"]),
        finished_at=iso_or_none(row["finished_at"]),
        errored_at=iso_or_none(row["errored_at"]),
        err=row["err"],
        err_description=row["err_description"],
    )
