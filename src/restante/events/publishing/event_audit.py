"""The audit log of event polling: which operator did what to clients, keys and events, and when.

Rows are only added. Rows about single events (published, released, dropped) are many and expire. Rows about clients,
keys and streams are few, may be needed years later, and are kept forever.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.core.decoding import INT64_MAX
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.events.clients import client_scope
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

# The most rows that one sweep deletes in its transaction.
ROWS_MAX = 1000


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action to record. `detail` must hold no secret."""

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
    """Record one action, in the transaction that performs it."""
    record_all(conn, [NewAction(actor, event, client_id, detail)])


def record_all(conn: Connection, actions: Sequence[NewAction]) -> None:
    rows = [
        (conn.now_ms, action.actor, action.event, action.client_id, msgspec.json.encode(action.detail).decode())
        for action in actions
    ]
    conn.run_rows(SQL.insert_action, rows)


def list_page(
    conn: Connection, client_id: str | None, window: PageRequest, allowed: AllowedIds = ALL_IDS
) -> Page[AuditedAction]:
    """Return a page of actions, newest first, of one client or of all allowed ones. `after` is the oldest id of the
    page before. Only who may see every client sees the actions on none."""
    before = window.after or INT64_MAX
    clients = client_scope.row_ids(conn, allowed)
    rows = conn.all(SQL.actions, client_id=client_id, clients=clients, before=before, limit=window.limit + 1)
    return page_of(rows, window, "id", _view)


def forget_old(conn: Connection, keep_seconds: int) -> int:
    """Delete actions on single events that are older than `keep_seconds`; return the number of rows."""
    return conn.run(SQL.forget_old, before_ms=conn.now_ms - keep_seconds * 1000, limit=ROWS_MAX)


def _view(row: Row) -> AuditedAction:
    detail = msgspec.Raw(row["detail"].encode())
    return AuditedAction(row["id"], row["at"], row["actor"], row["event"], row["client_id"], detail)
