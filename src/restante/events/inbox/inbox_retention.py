"""Removes finished events after their retention: the event, its token, and the record that it was sent.

A jti has 128 random bits and is generated only here, so a removed one never comes again. Also stores when each client
last polled, in batches.

Invariant: only acknowledged or dropped events are removed.
"""

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.inbox.inbox import place_of

SQL = queries_beside(__file__)

# Few enough for one transaction.
ROWS_MAX = 1000


def evict(conn: Connection, keep_seconds: int) -> int:
    """Remove events that were finished longer ago than that; return how many rows."""
    before_ms = conn.now_ms - keep_seconds * 1000
    events = conn.all(SQL.evict, before_ms=before_ms, limit=ROWS_MAX)
    if events:
        conn.run_many(SQL.evict_text, [{"place": place_of(row["client"], row["id"])} for row in events])
    records = conn.all(SQL.superseded_records, before_ms=before_ms, limit=ROWS_MAX)
    if records:
        conn.run_many(SQL.delete_record, [dict(row) for row in records])
    return len(events) + len(records)


def write_last_poll(conn: Connection, seen: list[tuple[int, float]]) -> None:
    conn.run_many(SQL.last_poll, [{"client": client, "polled_ms": int(at * 1000)} for client, at in seen])
