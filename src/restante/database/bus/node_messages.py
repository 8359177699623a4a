"""Node messages: a commit stores one for the other nodes that share the database (table `notices`).

    transaction: change + message ─ COMMIT ─▶ NOTIFY with the message ─▶ the other nodes
                             └── stored for a minute ──▶ scanned every second for messages that were not received

The message is stored in the transaction of the change. A node that dies between its commit and the NOTIFY has
therefore sent its message nevertheless. A reader stores the horizon: all transactions with a lower id had ended.
Its next scan starts at the horizon, so it misses no commit, in whatever order transactions commit. This module does
not know what the messages mean.

Invariants: a message is stored if and only if its transaction commits; it is published only after the commit.
"""

from dataclasses import dataclass

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# A scan skips younger messages: the node that stored them is about to publish them.
PUBLISH_GRACE_MS = 300
RETENTION_MS = 60_000
SWEEP_ROWS = 1000


@dataclass(frozen=True, slots=True)
class NodeMessage:
    """A stored message. It is also a commit event: the committing process publishes the message under `commit_id`."""

    commit_id: int
    node: str
    message: str

    def cluster_message(self) -> None:
        """The stored message is no message itself."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The messages found, the horizon for the next scan, and the database's time.

    Everything that was committed before the scan has an id below `next_id`.
    """

    found: list[NodeMessage]
    horizon: int
    now_ms: int
    next_id: int


def store(conn: Connection, node: str, message: str) -> NodeMessage:
    row = conn.one(SQL.store, node=node, now_ms=conn.now_ms, message=message)
    if row is None:
        raise RuntimeError("INSERT … RETURNING returned no row")
    return NodeMessage(row["commit_id"], node, message)


def scan(conn: Connection, node: str, horizon: int | None) -> Scan:
    """Read the other nodes' messages from the horizon on. Without a horizon: read none, only where to start next."""
    row = conn.one(SQL.horizon)
    next_horizon, next_id = (int(row["commit_id"]), int(row["next_id"])) if row is not None else (0, 0)
    if horizon is None:
        return Scan([], next_horizon, conn.now_ms, next_id)
    before_ms = conn.now_ms - PUBLISH_GRACE_MS
    rows = conn.all(SQL.stored_since, node=node, horizon=horizon, before_ms=before_ms)
    return Scan([NodeMessage(**row) for row in rows], next_horizon, conn.now_ms, next_id)


def read_message(conn: Connection, commit_id: int) -> str | None:
    """Read one stored message, for a node that received only its number. None if it has been deleted."""
    row = conn.one(SQL.message, commit_id=commit_id)
    return None if row is None else str(row["message"])


def delete_old(conn: Connection) -> int:
    return conn.run(SQL.delete_old, before_ms=conn.now_ms - RETENTION_MS, limit=SWEEP_ROWS)
