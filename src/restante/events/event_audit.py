"""What operators did to clients of event polling, to keys and to events: who, when, what.

Rows are added and never changed. Who published, released or dropped an event is a row for each of them and is forgotten
after a while; who let a client in, or had a key replaced, is kept for ever: such rows are few, and asked for late.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.web.ask import INT64_MAX
from restante.web.paging import Page, Window, page_of

SQL = queries_beside(__file__)

# As many as are good for one transaction.
ROWS_MAX = 1000


class NewAction(NamedTuple):
    actor: str
    event: str
    client_id: str | None
    detail: Mapping[str, Any]


class AuditedAction(msgspec.Struct, frozen=True):
    id: int
    at_ms: int
    actor: str
    event: str
    client_id: str | None
    detail: msgspec.Raw


def record(conn: Connection, actor: str, event: str, client_id: str | None, detail: dict[str, Any]) -> None:
    """Write it down, in the transaction that does it. `detail` must hold no secret."""
    record_all(conn, [NewAction(actor, event, client_id, detail)])


def record_all(conn: Connection, actions: Sequence[NewAction]) -> None:
    """The same, of several."""
    texts = (msgspec.json.encode(action.detail).decode() for action in actions)
    rows = [(conn.now_ms, *action[:3], text) for action, text in zip(actions, texts, strict=True)]
    conn.run_rows(SQL.insert_action, rows)


def list_page(conn: Connection, client_id: str | None, window: Window) -> Page[AuditedAction]:
    """The newest first, of one client or of all; a page goes on before where the one before it ended."""
    before = window.after or INT64_MAX
    rows = conn.all(SQL.actions, client_id=client_id, before=before, limit=window.limit + 1)
    return page_of(rows, window, "id", _view)


def forget_old(conn: Connection, keep_seconds: int) -> int:
    """Remove who did what to events longer ago than that; how many rows."""
    return conn.run(SQL.forget_old, before_ms=conn.now_ms - keep_seconds * 1000, limit=ROWS_MAX)


def _view(row: Row) -> AuditedAction:
    detail = msgspec.Raw(row["detail"].encode())
    return AuditedAction(row["id"], row["at"], row["actor"], row["event"], row["client_id"], detail)
