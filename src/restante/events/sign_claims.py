"""Who signs what, where several nodes share a database: ranges of clients' rows, claimed for as long as a batch takes.

A claim divides the work and guarantees nothing: what is stored is decided where it is stored. So it may be lost, or run
out under its owner's hands, or be held by a node that is gone, and all it costs is that rows are signed twice or wait a
few seconds.
"""

import secrets

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events import sign_turns
from restante.events.sign_turns import Place

SQL = queries_beside(__file__)

# A batch takes a second or two on a slow machine; those of a node that died wait for this long.
CLAIM_SECONDS = 10


def take(conn: Connection, place: Place, limit: int) -> tuple[int | None, list[Row], Place]:
    """A claim on rows that nobody has, chosen as `sign_turns` does; no claim if there are none."""
    conn.one(SQL.take_turns)
    conn.run(SQL.forget_ended, now_ms=conn.now_ms)
    rows, next_place = sign_turns.choose(conn, place, limit)
    if not rows:
        return None, [], next_place
    batch = secrets.randbits(62)
    claimed_until = conn.now_ms + CLAIM_SECONDS * 1000
    ranges: dict[int, tuple[int, int]] = {}
    for row in rows:
        first_id, _ = ranges.get(row["client"], (row["id"], 0))
        ranges[row["client"]] = (first_id, row["id"])
    conn.run_many(
        SQL.insert,
        [
            {"client": client, "batch": batch, "first_id": first, "last_id": last, "claimed_until": claimed_until}
            for client, (first, last) in ranges.items()
        ],
    )
    return batch, rows, next_place


def release(conn: Connection, batch: int | None) -> None:
    if batch is not None:
        conn.run(SQL.release, batch=batch)
