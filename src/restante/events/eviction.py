"""What is done with leaves the inbox after its retention: the event, its token, the note of when it was sent.

A jti is 128 random bits and comes from nowhere else, so one that has left is never met again. Must always hold: nothing
leaves that is not acknowledged or dropped. Also when each client last polled, written down in batches.
"""

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.inbox import place_of

SQL = queries_beside(__file__)

# As many as are good for one transaction.
ROWS_MAX = 1000


def evict(conn: Connection, keep_seconds: int) -> int:
    """Remove what was finished longer ago than that; how many rows."""
    before_ms = conn.now_ms - keep_seconds * 1000
    events = conn.all(SQL.evict, before_ms=before_ms, limit=ROWS_MAX)
    if events:
        conn.run_many(SQL.evict_text, [{"place": place_of(row["client"], row["id"])} for row in events])
    notes = conn.all(SQL.old_hand_outs, before_ms=before_ms, limit=ROWS_MAX)
    if notes:
        conn.run_many(SQL.forget_hand_out, [dict(row) for row in notes])
    return len(events) + len(notes)


def write_last_poll(conn: Connection, seen: list[tuple[int, float]]) -> None:
    conn.run_many(SQL.last_poll, [{"client": client, "polled_ms": int(at * 1000)} for client, at in seen])
