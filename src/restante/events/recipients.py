"""For whom an event is: which clients, in which form, which of its types.

    no subscription            every type, as Open Banking has it
    a subscription             the types it names; every type where it names none
    a stream of shared signals the types it requested, if it follows the subject, each as a token of its own
    a disabled stream          nothing
    suspended                  as if it were not: its events are kept until it is let in again

A client with a stream is a receiver of shared signals and nothing else. An event without a `sub` is one for receivers
of shared signals alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.database.hot import Failed
from restante.database.queries import queries_beside
from restante.events import subjects
from restante.events.claims import Event

SQL = queries_beside(__file__)

_encoder = msgspec.json.Encoder()


class Recipient(NamedTuple):
    """A client, and the types it is sent. With a stream they are shared signals."""

    client: int
    client_id: str
    types: list[str]
    stream: int | None


class Asked(NamedTuple):
    """An event for one client, or, without one, for everybody who asked for such events."""

    client_id: str | None
    event: Event


class Sending(NamedTuple):
    """An event, and everybody it is for."""

    event: Event
    recipients: list[Recipient]


class _Client(NamedTuple):
    """A row of the queries `some` and `every`."""

    client: int
    client_id: str
    event_types: str | None
    stream: int | None
    stream_status: str | None
    events_delivered: str | None
    all_subjects: int | None


# The streams that said something about a subject, and whether to follow it, by the subject's digest.
_Followers = dict[bytes, list[tuple[int, int]]]


class Clients:
    """What clients asked for, read for many events at once: it is asked for now, and told when it is wanted."""

    def __init__(self, conn: Connection, client_ids: Sequence[str | None]) -> None:
        """The clients of these names; for a None, all there are."""
        # No name holds a NUL, and PostgreSQL takes apart no list that does.
        names = sorted({name for name in client_ids if name is not None and "\0" not in name})
        listed = _encoder.encode(names).decode()
        self._conn = conn
        self._some = conn.values_later(SQL.some, client_ids=listed) if names else list
        self._every = conn.values_later(SQL.every) if None in client_ids else list

    def address(self, asked: Sequence[Asked | Failed]) -> list[Sending | Failed]:
        """Everybody whom each of the events is for; NotFound if there is no such client. What has failed stays so."""
        every = [_Client(*row) for row in self._every()]
        some = {row[1]: [_Client(*row)] for row in self._some()}

        def candidates(each: Asked) -> list[_Client]:
            return every if each.client_id is None else some.get(each.client_id, [])

        for_streams = [each for each in asked if isinstance(each, Asked) and _any_streams(candidates(each))]
        followers = self._followers([each.event for each in for_streams])
        return [each if isinstance(each, Failed) else _sending(each, candidates(each), followers) for each in asked]

    def _followers(self, events: list[Event]) -> _Followers:
        wanted = {digest for event in events for digest in subjects.digests(event.subject)}
        later = {digest: self._conn.values_later(SQL.followers, subject_hash=digest) for digest in wanted}
        return {digest: [(stream, is_added) for stream, is_added in rows()] for digest, rows in later.items()}


def _any_streams(clients: list[_Client]) -> bool:
    return any(client.stream is not None for client in clients)


def _sending(asked: Asked, clients: list[_Client], followers: _Followers) -> Sending | Failed:
    event = asked.event
    if asked.client_id is not None and not clients:
        return Failed(NotFound(f"there is no client {asked.client_id}"))
    if asked.client_id is not None and clients[0].stream is None and event.sub is None:
        return Failed(BadInput("sub", "a value, the client is no receiver of shared signals"))
    follows = _follows(event, followers) if _any_streams(clients) else {}
    found = (_recipient(client, event, follows) for client in clients)
    return Sending(event, [recipient for recipient in found if recipient is not None])


def _follows(event: Event, followers: _Followers) -> dict[int, bool]:
    """The streams that said something about the subject: whether they follow it. The most exact word counts."""
    found: dict[int, bool] = {}
    for digest in subjects.digests(event.subject):
        for stream, is_added in followers[digest]:
            found.setdefault(stream, bool(is_added))
    return found


def _recipient(client: _Client, event: Event, follows: dict[int, bool]) -> Recipient | None:
    if client.stream is not None:
        is_followed = follows.get(client.stream, bool(client.all_subjects))
        is_told = client.stream_status != "disabled" and is_followed
        types = _asked_for(client.events_delivered, event) if is_told else []
    else:
        types = _asked_for(client.event_types, event) if event.sub is not None else []
    return Recipient(client.client, client.client_id, types, client.stream) if types else None


def _asked_for(types: str | None, event: Event) -> list[str]:
    """Those of the event's types that are in the list; all of them where there is none."""
    if types is None:
        return list(event.events)
    wanted = set(msgspec.json.decode(types, type=list[str]))
    return [name for name in event.events if name in wanted]
