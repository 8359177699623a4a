"""The audit trail of access: who made, changed, suspended or removed a person or an API key, and when.

Rows are only added, in the transaction of the change, and kept forever: they are few. Only rows about the single items
of a bulk job expire. No row contains a secret.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from restante.core.decoding import INT64_MAX
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# The most rows that one sweep deletes in its transaction.
SWEEP_ROWS = 1000
# The actor of changes that the server makes by itself.
SYSTEM = "system"


class AccessChange(msgspec.Struct, frozen=True):
    """A change of a person or of a key: `person_id` or `key_id` names it."""

    id: int
    at: Timestamp
    actor: str
    event: str
    person_id: int | None
    key_id: int | None
    detail: msgspec.Raw


def record_person(conn: Connection, actor: str, event: str, person_id: int, detail: dict[str, Any]) -> None:
    _record(conn, actor, event, person_id, None, detail)


def record_key(conn: Connection, actor: str, event: str, key_id: int, detail: dict[str, Any]) -> None:
    _record(conn, actor, event, None, key_id, detail)


def record_other(conn: Connection, actor: str, event: str, detail: dict[str, Any]) -> None:
    """Record a change that concerns neither one person nor one key."""
    _record(conn, actor, event, None, None, detail)


def record_items(conn: Connection, actor: str, event: str, job: int, details: Iterable[dict[str, Any]]) -> None:
    """Record a change of each item of a bulk job."""
    rows = [(conn.now_ms, actor, event, msgspec.json.encode(detail).decode(), job) for detail in details]
    conn.run_rows(SQL.insert_item, rows)


def forget_items(conn: Connection, keep_seconds: int) -> int:
    """Delete some rows about items of jobs that are older than that; return how many."""
    return conn.run(SQL.forget_items, before_ms=conn.now_ms - keep_seconds * 1000, limit=SWEEP_ROWS)


def list_page(conn: Connection, person_id: int | None, key_id: int | None, page: PageRequest) -> Page[AccessChange]:
    """A page of the changes of one person, of one key, or of all, newest first."""
    before = page.after or INT64_MAX
    rows = conn.all(SQL.changes, person_id=person_id, key_id=key_id, before=before, limit=page.limit + 1)
    return page_of(rows, page, "id", _view)


def _record(
    conn: Connection, actor: str, event: str, person_id: int | None, key_id: int | None, detail: dict[str, Any]
) -> None:
    conn.run(
        SQL.insert_change,
        at=conn.now_ms,
        actor=actor,
        event=event,
        person_id=person_id,
        key_id=key_id,
        detail=msgspec.json.encode(detail).decode(),
    )


def _view(row: Row) -> AccessChange:
    return AccessChange(
        row["id"],
        iso_precise(row["at"]),
        row["actor"],
        row["event"],
        row["person_id"],
        row["key_id"],
        msgspec.Raw(row["detail"].encode()),
    )
