"""A rollout: while it is on, every device is asked to poll at the rollout's pace instead of the ordinary one.

There is one at a time, for the whole fleet, and it ends by itself. It is kept in the database, so that it survives a
restart and a command line beside the server can start it; the poll remembers the one in force.
"""

from typing import NamedTuple

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

INTERVAL_SECONDS = 15
INTERVAL_SECONDS_MAX = 3600
ROLLOUT_SECONDS_MAX = 30 * 86_400


class Rollout(NamedTuple):
    until: float  # seconds since the epoch
    interval_seconds: int


class RolloutChanged(NamedTuple):
    """Announced when a rollout starts or is stopped."""

    rollout: Rollout | None


def start(conn: Connection, for_seconds: int, interval_seconds: int) -> Rollout:
    until_at = conn.now_ms + for_seconds * 1000
    conn.run(SQL.set_rollout, until_at=until_at, interval_seconds=interval_seconds)
    rollout = Rollout(until_at / 1000, interval_seconds)
    conn.announce(RolloutChanged(rollout))
    return rollout


def stop(conn: Connection) -> None:
    conn.run(SQL.clear_rollout)
    conn.announce(RolloutChanged(None))


def current(conn: Connection) -> Rollout | None:
    row = conn.one(SQL.current_rollout, now_ms=conn.now_ms)
    return None if row is None else Rollout(row["until_at"] / 1000, row["interval_seconds"])
