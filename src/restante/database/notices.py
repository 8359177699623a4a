"""Notices: what a commit tells the other nodes that share the database.

    transaction: change + notice ─ COMMIT ─▶ NOTIFY, carrying the notice ─▶ the other nodes
                          └── kept for a minute ──▶ looked at every second, for what was not heard

A notice is kept in the transaction of the change, so that a node that dies between its commit and telling of it has
told nevertheless. Readers remember below which transaction all are over (the horizon), and next time look at what is
not below it: no commit is missed, in whatever order they come. Knows nothing of what the messages say.

Must always hold: a notice is kept if and only if its transaction is committed, and one is told only after that.
"""

from typing import NamedTuple

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Younger notices are about to be told by whoever kept them.
TOLD_WITHIN_MS = 300
KEEP_MS = 60_000
SWEEP_ROWS = 1000


class Notice(NamedTuple):
    """Also announced by the commit itself: its own process then knows what to tell the others under which number."""

    commit_id: int
    node: str
    message: str


class Look(NamedTuple):
    """What a look has found, the horizon to look from next, and the database's time. Everything that was committed
    before it has a lower number than `next_id`."""

    found: list[Notice]
    horizon: int
    now_ms: int
    next_id: int


def keep(conn: Connection, node: str, message: str) -> Notice:
    row = conn.one(SQL.keep, node=node, now_ms=conn.now_ms, message=message)
    if row is None:
        raise RuntimeError("an insert has returned nothing")
    return Notice(row["commit_id"], node, message)


def look(conn: Connection, node: str, horizon: int | None) -> Look:
    """What the others have kept since the horizon; without one, nothing, but from where to look next."""
    row = conn.one(SQL.horizon)
    following, next_id = (int(row["commit_id"]), int(row["next_id"])) if row is not None else (0, 0)
    if horizon is None:
        return Look([], following, conn.now_ms, next_id)
    before_ms = conn.now_ms - TOLD_WITHIN_MS
    rows = conn.all(SQL.since, node=node, horizon=horizon, before_ms=before_ms)
    return Look([Notice(**row) for row in rows], following, conn.now_ms, next_id)


def message_of(conn: Connection, commit_id: int) -> str | None:
    """The message of one notice, for who was told only its number; None if it is no longer kept."""
    row = conn.one(SQL.one_of, commit_id=commit_id)
    return None if row is None else str(row["message"])


def forget_old(conn: Connection) -> int:
    return conn.run(SQL.forget_old, before_ms=conn.now_ms - KEEP_MS, limit=SWEEP_ROWS)
