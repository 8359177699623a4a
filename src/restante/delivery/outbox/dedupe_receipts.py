"""Receipts record which rows of external outboxes are published. They are written in the publishing transaction.

    source:    claim ──────────────────────────────▶ mark delivered
    server:            publish + store receipt ─▶                     close receipt ─▶ … ─▶ evict

If a dispatcher dies between publishing and marking, its receipts remain. The dispatcher that claims the rows next
finds the receipts, publishes nothing, and marks the rows. A dispatcher that resumes after its lease has expired is
refused by the end of its lease and, if its clock is wrong, by the receipts.

Invariants: a receipt exists as long as its row may be claimed again. A row is identified by source, id and content: an
id that is used again after a restore of the source does not count as published.
"""

import hashlib
from dataclasses import dataclass, field

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Signal
from restante.delivery.outbox.external_outbox import ClaimedRow
from restante.delivery.outbox.outbox import Append, Undeliverable, signals_of

SQL = queries_beside(__file__)


class LeaseExpired(Exception):
    """The lease on these rows has expired: another dispatcher may have claimed them."""


@dataclass(slots=True)
class PublishResult:
    """The ids of claimed rows: published now, published before, and (with the reason) undeliverable."""

    published: list[int] = field(default_factory=list)
    already_published: list[int] = field(default_factory=list)
    undeliverable: dict[int, str] = field(default_factory=dict)


def publish(conn: Connection, source: str, rows: list[ClaimedRow], lease_ends_ms: int, append: Append) -> PublishResult:
    """Publish the rows without a receipt, and store their receipts. LeaseExpired, with nothing changed, if too late."""
    if conn.now_ms >= lease_ends_ms:
        raise LeaseExpired
    result = PublishResult()
    receipts = _receipts(conn, source, rows)
    fingerprints = {row.id: _fingerprint(row) for row in rows}
    result.already_published = [row.id for row in rows if receipts.get(row.id) == fingerprints[row.id]]
    already_published = set(result.already_published)
    new = [row for row in rows if row.id not in already_published]
    by_device: dict[int, list[Signal]] = {}
    for row, signal in zip(new, signals_of(conn, new), strict=True):
        if isinstance(signal, Undeliverable):
            result.undeliverable[row.id] = str(signal)
        else:
            by_device.setdefault(row.device_id, []).append(signal)
            result.published.append(row.id)
    if by_device:
        append(conn, by_device)
    new_receipts = [
        {"source": source, "row_id": row_id, "fingerprint": fingerprints[row_id], "now_ms": conn.now_ms}
        for row_id in result.published
    ]
    conn.run_many(SQL.store_receipt, new_receipts)
    return result


def close_receipts(conn: Connection, source: str, row_ids: list[int]) -> None:
    """The rows are no longer pending in their source."""
    conn.run_many(
        SQL.close_receipt, [{"source": source, "row_id": row_id, "now_ms": conn.now_ms} for row_id in row_ids]
    )


def open_receipts(conn: Connection, source: str, older_than_seconds: float, limit: int) -> list[int]:
    before_ms = conn.now_ms - int(older_than_seconds * 1000)
    return [row["row_id"] for row in conn.all(SQL.open_receipts, source=source, before_ms=before_ms, limit=limit)]


def evict_closed(conn: Connection, older_than_seconds: float, limit: int) -> int:
    return conn.run(SQL.evict_closed, before_ms=conn.now_ms - int(older_than_seconds * 1000), limit=limit)


def clock(conn: Connection) -> int:
    """The server's own time, by which it limits leases on external rows."""
    return conn.now_ms


def _receipts(conn: Connection, source: str, rows: list[ClaimedRow]) -> dict[int, str]:
    row_ids = msgspec.json.encode([row.id for row in rows]).decode()
    found = conn.all(SQL.receipts_of, source=source, row_ids=row_ids)
    return {row["row_id"]: row["fingerprint"] for row in found}


def _fingerprint(row: ClaimedRow) -> str:
    content = f"{row.device_id}\n{row.created_at}\n{row.payload}"
    return hashlib.blake2b(content.encode(errors="surrogatepass"), digest_size=16).hexdigest()
