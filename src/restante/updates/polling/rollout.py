"""A rollout: while it lasts, every device is asked to poll at the rollout's interval instead of the normal one.

There is at most one, for the whole fleet, and it ends by itself. It is stored in the database, so it survives a restart
and the command line can start it; the poll caches the current one.
"""

from typing import ClassVar, NamedTuple

from msgspec import UNSET, UnsetType

from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

INTERVAL_SECONDS = 15
INTERVAL_SECONDS_MAX = 3600
ROLLOUT_SECONDS_MAX = 30 * 86_400


class Rollout(NamedTuple):
    until: float  # seconds since the epoch
    interval_seconds: int


class RolloutChanged(ClusterMessage, frozen=True, tag="rollout"):
    """A rollout started or stopped. A message without the field asks the node to read it."""

    needs_catch_up: ClassVar[bool] = True

    rollout: Rollout | UnsetType | None = UNSET


def start(conn: Connection, for_seconds: int, interval_seconds: int) -> Rollout:
    until_at = conn.now_ms + for_seconds * 1000
    conn.run(SQL.set_rollout, until_at=until_at, interval_seconds=interval_seconds)
    rollout = Rollout(until_at / 1000, interval_seconds)
    conn.add_commit_event(RolloutChanged(rollout))
    return rollout


def stop(conn: Connection) -> None:
    conn.run(SQL.clear_rollout)
    conn.add_commit_event(RolloutChanged(None))


def current(conn: Connection) -> Rollout | None:
    row = conn.one(SQL.current_rollout, now_ms=conn.now_ms)
    return None if row is None else Rollout(row["until_at"] / 1000, row["interval_seconds"])
