"""The outbox in a database of the user's: what is done over there, each function in one transaction over there.

The table and what its rows go through are those of the server's own outbox (`outbox.py`), and so are listing, showing
and retrying. What differs is that publishing happens in another database: rows are claimed here, published there
(`receipts.py`), and marked here.

Must always hold: `claim` is run by one dispatcher at a time (`OutsideDatabase.write_alone`), as what one has leased
must be seen by the next; a row that somebody has locked holds back the later rows of its device, like one that waits.
"""

from typing import NamedTuple

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


class ClaimedRow(NamedTuple):
    id: int
    device_id: int
    payload: str
    attempts: int
    created_at: int


def is_any_pending(conn: Connection) -> bool:
    """Whether anything is to be published, now or later."""
    return conn.one(SQL.any_pending) is not None


def claim(conn: Connection, dispatcher: str, lease_seconds: float, batch: int) -> list[ClaimedRow]:
    """Lease up to `batch` rows to a dispatcher, oldest first."""
    found = conn.all(SQL.candidates, now_ms=conn.now_ms, batch=batch)
    if not found:
        return []
    taken = {row["id"]: ClaimedRow(**row) for row in conn.all(SQL.take, ids=[row["id"] for row in found])}
    locked_devices: set[int] = set()
    claimed = []
    for row in found:
        if row["id"] not in taken:
            locked_devices.add(row["device_id"])
        elif row["device_id"] not in locked_devices:
            claimed.append(taken[row["id"]])
    if claimed:
        conn.run(
            SQL.lease,
            ids=[row.id for row in claimed],
            claimed_by=dispatcher,
            now_ms=conn.now_ms,
            lock_expires_at=conn.now_ms + int(lease_seconds * 1000),
        )
    return claimed


def mark_delivered(conn: Connection, row_ids: list[int]) -> None:
    if row_ids:
        conn.run(SQL.mark_delivered, ids=row_ids, now_ms=conn.now_ms)


def still_pending(conn: Connection, row_ids: list[int]) -> set[int]:
    """Which of the rows have not come to an end. Those that are gone have."""
    return {row["id"] for row in conn.all(SQL.pending_among, ids=row_ids)} if row_ids else set()


def seconds_until_due(conn: Connection) -> float | None:
    """How long until a waiting row can be claimed; None where none waits."""
    row = conn.one(SQL.next_due)
    due_at = row["due_at"] if row is not None else None
    return None if due_at is None else max(0.0, (due_at - conn.now_ms) / 1000)
