"""For whom an event is: which clients, in which form, which of its types.

    no subscription            every type, as Open Banking has it
    a subscription             the types it names; every type where it names none
    a stream of shared signals the types it requested, if it follows the subject, each as a token of its own
    a disabled stream          nothing
    suspended                  as if it were not: its events are kept until it is let in again

A client with a stream is a receiver of shared signals and nothing else. An event without a `sub` is one for receivers
of shared signals alone.
"""

from typing import NamedTuple

import msgspec

from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events import subjects
from restante.events.claims import Event

SQL = queries_beside(__file__)


class Recipient(NamedTuple):
    """A client, and the types it is sent. With a stream they are shared signals."""

    client: int
    client_id: str
    types: list[str]
    stream: int | None


def of_client(conn: Connection, client_id: str, event: Event) -> Recipient | None:
    """None if the client did not ask for such events; NotFound if there is no such client."""
    row = conn.one(SQL.client, client_id=client_id)
    if row is None:
        raise NotFound(f"there is no client {client_id}")
    if row["stream"] is None and event.sub is None:
        raise BadInput("sub", "a value, the client is no receiver of shared signals")
    return _recipient(row, event, _followers(conn, event) if row["stream"] is not None else {})


def subscribers(conn: Connection, event: Event) -> list[Recipient]:
    """Everybody who asked for such events."""
    followers = _followers(conn, event)
    found = (_recipient(row, event, followers) for row in conn.all(SQL.clients))
    return [recipient for recipient in found if recipient is not None]


def _recipient(row: Row, event: Event, followers: dict[int, bool]) -> Recipient | None:
    if row["stream"] is not None:
        is_followed = followers.get(row["stream"], bool(row["all_subjects"]))
        is_told = row["stream_status"] != "disabled" and is_followed
        types = _asked_for(row["events_delivered"], event) if is_told else []
    else:
        types = _asked_for(row["event_types"], event) if event.sub is not None else []
    return Recipient(row["client"], row["client_id"], types, row["stream"]) if types else None


def _asked_for(types: str | None, event: Event) -> list[str]:
    """Those of the event's types that are in the list; all of them where there is none."""
    if types is None:
        return list(event.events)
    wanted = set(msgspec.json.decode(types, type=list[str]))
    return [name for name in event.events if name in wanted]


def _followers(conn: Connection, event: Event) -> dict[int, bool]:
    """The streams that said something about the subject: whether they follow it. The most exact word counts."""
    found: dict[int, bool] = {}
    for digest in subjects.digests(event.subject):
        for row in conn.all(SQL.followers, subject_hash=digest):
            found.setdefault(row["stream"], bool(row["is_added"]))
    return found
