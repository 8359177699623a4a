"""An outbox in an external database: the functions that run in that database, each in one transaction.

The table, the states of its rows, and the functions for operators are those of the server's own outbox (`outbox.py`).
The difference: rows are claimed in the external database, published in the server's (`dedupe_receipts.py`), and then
marked in the external one.

Invariants: one dispatcher at a time runs `claim` (`ExternalDatabase.write_exclusive`), so that each claim sees the
leases of the one before. A row that another transaction has locked holds back the later rows of its device, like a row
that waits for its retry.
"""

from dataclasses import dataclass

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.delivery.outbox.outbox import LeasedRow

SQL = queries_beside(__file__)


@dataclass(frozen=True, slots=True)
class ClaimedRow(LeasedRow):
    created_at: int


def is_any_pending(conn: Connection) -> bool:
    """Whether any row waits to be published, now or later."""
    return conn.one(SQL.any_pending) is not None


def claim(conn: Connection, dispatcher: str, lease_seconds: float, batch: int) -> list[ClaimedRow]:
    """Lease up to `batch` rows to a dispatcher, oldest first."""
    candidates = conn.all(SQL.candidates, now_ms=conn.now_ms, batch=batch)
    if not candidates:
        return []
    unlocked = {row["id"]: ClaimedRow(**row) for row in conn.all(SQL.lock, ids=[row["id"] for row in candidates])}
    locked_devices: set[int] = set()
    claimed = []
    for row in candidates:
        if row["id"] not in unlocked:
            locked_devices.add(row["device_id"])
        elif row["device_id"] not in locked_devices:
            claimed.append(unlocked[row["id"]])
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
    """Which of the rows are still pending. A deleted row is not."""
    return {row["id"] for row in conn.all(SQL.pending_among, ids=row_ids)} if row_ids else set()


def seconds_until_due(conn: Connection) -> float | None:
    """How long until a pending row can be claimed; None if there is none."""
    row = conn.one(SQL.next_due)
    due_at = row["due_at"] if row is not None else None
    return None if due_at is None else max(0.0, (due_at - conn.now_ms) / 1000)
