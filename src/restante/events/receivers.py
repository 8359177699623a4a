"""Receivers: where a client has its events pushed to, one for each profile. Set and taken away by what the client
subscribes to; what is pushed there is the business of `push_queue`.

Must always hold: a client that has no receiver has nothing to be pushed. Events that waited for a receiver wait no
more when it goes, and stay where polls find them; a receiver that moved is tried at once.
"""

from typing import Literal, NamedTuple

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

Profile = Literal["open-banking", "shared-signals"]


class PushDue(NamedTuple):
    """Announced by the commit after which something may be there to be pushed."""


class ReceiverState(NamedTuple):
    """How pushing to a receiver goes, for who looks after it."""

    profile: str
    url: str
    open_through: int | None
    failures: int
    retry_at: int
    problem: str | None
    last_tried_at: int | None
    last_delivered_at: int | None
    waiting: int


def put(conn: Connection, client: int, profile: Profile, url: str, sealed_authorization: bytes | None = None) -> None:
    """Have the client's events of the profile pushed there from now on, and those that still wait to be pushed."""
    conn.run(SQL.put_receiver, client=client, profile=profile, url=url, sealed_authorization=sealed_authorization)
    conn.run(SQL.try_at_once, client=client, profile=profile, now_ms=conn.now_ms)
    conn.announce(PushDue())


def remove(conn: Connection, client: int, profile: Profile) -> None:
    """Push nothing more; what waited is left to polling."""
    if conn.run(SQL.delete_receiver, client=client, profile=profile):
        conn.run(SQL.push_no_more, client=client, profile=profile)


def hold(conn: Connection, client: int, profile: Profile, open_through: int) -> None:
    """Send nothing beyond this event; what is published meanwhile waits."""
    conn.run(SQL.hold_receiver, client=client, profile=profile, open_through=open_through)


def let_go(conn: Connection, client: int, profile: Profile) -> None:
    """Send everything again."""
    conn.run(SQL.hold_receiver, client=client, profile=profile, open_through=None)
    conn.announce(PushDue())


def states(conn: Connection, client: int) -> list[ReceiverState]:
    """The client's receivers, and how many events wait for each."""
    rows = conn.all(SQL.receiver_states, client=client)
    return [ReceiverState(*(row[column] for column in ReceiverState._fields)) for row in rows]
