"""Events as operators see them: lists with filters, newest first, and one with its claims and what became of it.

The token itself is its client's and is not shown; what it says is.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from restante.core.errors import NotFound
from restante.core.iso_time import iso, iso_or_none
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events import inbox, jws
from restante.web.ask import INT64_MAX
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)

Status = Literal["unsigned", "ready", "acknowledged", "errored", "dropped"]
STATUSES: tuple[str, ...] = get_args(Status)


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
    """With what it says, and when it was handed to its client: by a poll, or pushed in how many attempts."""

    claims: dict[str, Any]
    first_polled_at: str | None
    push_attempts: int
    push_due_at: str | None
    push_problem: str | None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """None: whatever it is."""

    client_id: str | None = None
    status: str | None = None
    txn: str | None = None


def list_page(conn: Connection, wanted: EventFilter, window: Window) -> Page[EventView]:
    before = window.after or INT64_MAX
    asked = {"status": wanted.status, "txn": wanted.txn, "limit": window.limit + 1}
    if wanted.client_id is None:
        return page_of(conn.all(SQL.events, before=before, **asked), window, "id", view)
    client = client_row(conn, wanted.client_id)
    match wanted.status:
        case "errored":
            rows = conn.all(SQL.errored_of_client, client=client, before=before, **asked)
        case "unsigned" | "ready":
            rows = conn.all(SQL.open_of_client, client=client, before=before, **asked)
        case _:
            first, end = inbox.place_of(client, 0), inbox.place_of(client + 1, 0)
            place = min(first + min(before, end), end)
            rows = conn.all(SQL.events_of_client, client=client, first=first, before=place, **asked)
    return page_of(rows, window, "id", view)


def show(conn: Connection, jti: str) -> EventDetail:
    row = conn.one(SQL.event, jti=jti)
    if row is None:
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


def client_row(conn: Connection, client_id: str) -> int:
    row = conn.one(SQL.client, client_id=client_id)
    if row is None:
        raise NotFound(f"there is no client {client_id}")
    return int(row["id"])


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
