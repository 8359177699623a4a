"""Receivers: the URL to which a client's events are pushed, at most one for each profile.

Subscriptions and streams set and remove receivers; `push_queue` sends the events.

Invariants:
- A client without a receiver has no events due for push. Removing a receiver leaves its waiting events to polls.
- A receiver whose URL changed is tried at once.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

Profile = Literal["open-banking", "shared-signals"]


class PushDue(ClusterMessage, frozen=True, tag="push"):
    """Events may wait to be pushed."""

    work_role: ClassVar[str] = "push"


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """The push status of a receiver, for operators."""

    profile: str
    url: str
    open_through: int | None
    failures: int
    retry_at: int
    problem: str | None
    last_tried_at: int | None
    last_delivered_at: int | None
    waiting: int


def set_receiver(
    conn: Connection, client: int, profile: Profile, url: str, sealed_authorization: bytes | None = None
) -> None:
    """Push the client's events of the profile to this URL, including those that already wait for push."""
    conn.run(SQL.put_receiver, client=client, profile=profile, url=url, sealed_authorization=sealed_authorization)
    conn.run(SQL.make_due_now, client=client, profile=profile, now_ms=conn.now_ms)
    conn.add_commit_event(PushDue())


def remove_receiver(conn: Connection, client: int, profile: Profile) -> None:
    """Stop pushing; waiting events are left to polling."""
    if conn.run(SQL.delete_receiver, client=client, profile=profile):
        conn.run(SQL.clear_due, client=client, profile=profile)


def pause(conn: Connection, client: int, profile: Profile, open_through: int) -> None:
    """Send no events after `open_through`; later events wait."""
    conn.run(SQL.set_open_through, client=client, profile=profile, open_through=open_through)


def resume(conn: Connection, client: int, profile: Profile) -> None:
    """End a pause."""
    conn.run(SQL.set_open_through, client=client, profile=profile, open_through=None)
    conn.add_commit_event(PushDue())


def list_states(conn: Connection, client: int) -> list[ReceiverState]:
    """Return the client's receivers, with the number of waiting events of each."""
    return [
        ReceiverState(
            row["profile"],
            row["url"],
            row["open_through"],
            row["failures"],
            row["retry_at"],
            row["problem"],
            row["last_tried_at"],
            row["last_delivered_at"],
            row["waiting"],
        )
        for row in conn.all(SQL.receiver_states, client=client)
    ]
