"""Who signs what, where several nodes share a database: ranges of the inbox, claimed for as long as a batch may take.

A claim divides the work and guarantees nothing: what is stored is decided where it is stored. So it may be lost, or run
out under its owner's hands, or be held by a node that is gone, and all it costs is that rows are signed twice or wait a
few seconds.
"""

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# A batch takes a second or two on a slow machine; those of a node that died wait for this long.
CLAIM_SECONDS = 10


def take(conn: Connection, after: int, limit: int) -> tuple[int | None, list[Row]]:
    """A claim on the oldest rows that nobody has, behind the given one; no claim if there are none."""
    conn.one(SQL.take_turns)
    conn.run(SQL.forget_ended, now_ms=conn.now_ms)
    rows = conn.all(SQL.unclaimed, after=after, limit=limit)
    if not rows:
        return None, []
    made = conn.one(
        SQL.insert,
        first_id=rows[0]["id"],
        last_id=rows[-1]["id"],
        claimed_until=conn.now_ms + CLAIM_SECONDS * 1000,
    )
    return None if made is None else made["id"], rows


def release(conn: Connection, claim: int | None) -> None:
    if claim is not None:
        conn.run(SQL.release, id=claim)
