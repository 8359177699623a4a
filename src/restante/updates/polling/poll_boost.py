"""A poll boost: while it lasts, every device gets the poll boost's interval instead of the normal one.

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
BOOST_SECONDS_MAX = 30 * 86_400


class PollBoost(NamedTuple):
    until: float  # seconds since the epoch
    interval_seconds: int


class PollBoostChanged(ClusterMessage, frozen=True, tag="poll_boost"):
    """A poll boost started or stopped. A node that gets a message without the field reads it from the database."""

    needs_catch_up: ClassVar[bool] = True

    boost: PollBoost | UnsetType | None = UNSET


def start(conn: Connection, for_seconds: int, interval_seconds: int) -> PollBoost:
    until_at = conn.now_ms + for_seconds * 1000
    conn.run(SQL.set_boost, until_at=until_at, interval_seconds=interval_seconds)
    boost = PollBoost(until_at / 1000, interval_seconds)
    conn.add_commit_event(PollBoostChanged(boost))
    return boost


def stop(conn: Connection) -> None:
    conn.run(SQL.clear_boost)
    conn.add_commit_event(PollBoostChanged(None))


def current(conn: Connection) -> PollBoost | None:
    row = conn.one(SQL.current_boost, now_ms=conn.now_ms)
    return None if row is None else PollBoost(row["until_at"] / 1000, row["interval_seconds"])
