"""Leases of unsigned events, for nodes that share a database: ranges of clients' rows, held while a batch is signed.

A lease divides the work and guarantees nothing: the write that stores tokens decides. A lease may be lost, expire while
its node still signs, or outlive its node; then some events are signed twice or wait a few seconds.
"""

import secrets

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events.signing import fair_batching
from restante.events.signing.fair_batching import RoundPosition

SQL = queries_beside(__file__)

# A batch takes a second or two on a slow machine. The events of a node that died wait this long.
LEASE_SECONDS = 10


def acquire(conn: Connection, position: RoundPosition, limit: int) -> tuple[int | None, list[Row], RoundPosition]:
    """Lease the next batch of rows that no node has leased; return no lease if there are none."""
    conn.one(SQL.serialize)
    conn.run(SQL.delete_expired, now_ms=conn.now_ms)
    rows, next_position = fair_batching.next_batch(conn, position, limit)
    if not rows:
        return None, [], next_position
    lease = secrets.randbits(62)
    leased_until = conn.now_ms + LEASE_SECONDS * 1000
    ranges: dict[int, tuple[int, int]] = {}
    for row in rows:
        first_id, _ = ranges.get(row["client"], (row["id"], 0))
        ranges[row["client"]] = (first_id, row["id"])
    conn.run_many(
        SQL.insert,
        [
            {"client": client, "batch": lease, "first_id": first, "last_id": last, "claimed_until": leased_until}
            for client, (first, last) in ranges.items()
        ],
    )
    return lease, rows, next_position


def release(conn: Connection, lease: int | None) -> None:
    if lease is not None:
        conn.run(SQL.release, batch=lease)
