"""Receipts: which rows of outboxes in other databases are published, written in the transaction that publishes.

    source:  claim ─────────────────────────▶ mark delivered
    here:            publish + receipt ─▶                     settle ─▶ … ─▶ removed

A dispatcher that dies between publishing and marking leaves a receipt; whoever claims the row next finds it, publishes
nothing, and marks. One that wakes up after its lease is refused by the time it was given, and if its clock lies, by
the receipts.

Must always hold: a receipt is there as long as its row may be claimed again. A row is known by source, id and what it
says: ids that are used again, after a backup was restored over there, are not taken for published.
"""

import hashlib
from dataclasses import dataclass, field

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.delivery.outbox import Append, HeldRow, Undeliverable, signals_of
from restante.delivery.outside_outbox import ClaimedRow
from restante.delivery.signals import Signal

SQL = queries_beside(__file__)


class LeaseOver(Exception):
    """The lease these rows were claimed under is over: they may be another dispatcher's by now."""


@dataclass(slots=True)
class Publishing:
    """What became of claimed rows: in the log now, there before, never to be."""

    published: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    undeliverable: dict[int, str] = field(default_factory=dict)


def publish(conn: Connection, source: str, rows: list[ClaimedRow], lease_ends_ms: int, append: Append) -> Publishing:
    """Publish the rows that are not yet, each with its receipt; LeaseOver, and nothing happens, if it is too late."""
    if conn.now_ms >= lease_ends_ms:
        raise LeaseOver
    outcome = Publishing()
    receipts = _receipts(conn, source, rows)
    fingerprints = {row.id: _fingerprint(row) for row in rows}
    outcome.known = [row.id for row in rows if receipts.get(row.id) == fingerprints[row.id]]
    known = set(outcome.known)
    new = [HeldRow(row.id, row.device_id, row.payload, row.attempts) for row in rows if row.id not in known]
    by_device: dict[int, list[Signal]] = {}
    for row, signal in zip(new, signals_of(conn, new), strict=True):
        if isinstance(signal, Undeliverable):
            outcome.undeliverable[row.id] = str(signal)
        else:
            by_device.setdefault(row.device_id, []).append(signal)
            outcome.published.append(row.id)
    if by_device:
        append(conn, by_device)
    kept = [
        {"source": source, "row_id": row_id, "fingerprint": fingerprints[row_id], "now_ms": conn.now_ms}
        for row_id in outcome.published
    ]
    conn.run_many(SQL.keep_receipt, kept)
    return outcome


def settle(conn: Connection, source: str, row_ids: list[int]) -> None:
    """The rows have come to their end over there."""
    conn.run_many(SQL.settle, [{"source": source, "row_id": row_id, "now_ms": conn.now_ms} for row_id in row_ids])


def unsettled(conn: Connection, source: str, older_than_seconds: float, limit: int) -> list[int]:
    before_ms = conn.now_ms - int(older_than_seconds * 1000)
    return [row["row_id"] for row in conn.all(SQL.unsettled, source=source, before_ms=before_ms, limit=limit)]


def evict_settled(conn: Connection, older_than_seconds: float, limit: int) -> int:
    return conn.run(SQL.evict_settled, before_ms=conn.now_ms - int(older_than_seconds * 1000), limit=limit)


def clock(conn: Connection) -> int:
    """The time by which leases on rows elsewhere are counted here."""
    return conn.now_ms


def _receipts(conn: Connection, source: str, rows: list[ClaimedRow]) -> dict[int, str]:
    row_ids = msgspec.json.encode([row.id for row in rows]).decode()
    found = conn.all(SQL.receipts_of, source=source, row_ids=row_ids)
    return {row["row_id"]: row["fingerprint"] for row in found}


def _fingerprint(row: ClaimedRow) -> str:
    said = f"{row.device_id}\n{row.created_at}\n{row.payload}"
    return hashlib.blake2b(said.encode(errors="surrogatepass"), digest_size=16).hexdigest()
