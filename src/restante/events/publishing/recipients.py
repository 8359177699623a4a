"""Decides which clients receive an event, in which form, and which of its types.

    no subscription            every type, in the Open Banking form
    a subscription             the types it lists; every type if it lists none
    a Shared Signals stream    the types it requested, if it follows the subject, each in its own token
    a disabled stream          nothing
    a suspended client         the same as before: its events are kept until an operator resumes it
    a removed client           nothing, as if it did not exist

A client with a stream receives events in the Shared Signals form only. An event without a `sub` goes to Shared Signals
receivers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.database.writer.batching import Failed
from restante.events.publishing import subjects
from restante.events.publishing.token_claims import CheckedEvent

SQL = queries_beside(__file__)

_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Recipient:
    """A client, and the event types it receives: through a Shared Signals stream, if it has one."""

    client: int
    client_id: str
    types: list[str]
    stream: int | None


@dataclass(frozen=True, slots=True)
class TargetedEvent:
    """An event for one client, or, without `client_id`, for all subscribers."""

    client_id: str | None
    event: CheckedEvent


@dataclass(frozen=True, slots=True)
class AddressedEvent:
    """An event and its recipients."""

    event: CheckedEvent
    recipients: list[Recipient]


class _ClientRow(msgspec.Struct, frozen=True):
    """A row of the queries `some` and `every`; column order matters."""

    client: int
    client_id: str
    event_types: str | None
    stream: int | None
    stream_status: str | None
    events_delivered: str | None
    all_subjects: int | None


# By subject digest: (stream, is_added) of each stream with a preference for that subject.
_FollowerRows = dict[bytes, list[tuple[int, int]]]


class RecipientReader:
    """Reads clients and their subscriptions for many events at once. The constructor prefetches, `address` waits."""

    def __init__(self, conn: Connection, client_ids: Sequence[str | None]) -> None:
        """Prefetch these clients; None stands for all clients."""
        # PostgreSQL cannot parse a list with a NUL, and no client_id contains one.
        names = sorted({name for name in client_ids if name is not None and "\0" not in name})
        listed = _encoder.encode(names).decode()
        self._conn = conn
        self._some = conn.prefetch(SQL.some, client_ids=listed) if names else list
        self._every = conn.prefetch(SQL.every) if None in client_ids else list

    def address(self, events: Sequence[TargetedEvent | Failed]) -> list[AddressedEvent | Failed]:
        """Find the recipients of each event, or fail with NotFound. An event that already failed stays failed."""
        every = [_ClientRow(*row) for row in self._every()]
        some = {row[1]: [_ClientRow(*row)] for row in self._some()}

        def candidates(each: TargetedEvent) -> list[_ClientRow]:
            return every if each.client_id is None else some.get(each.client_id, [])

        for_streams = [each for each in events if isinstance(each, TargetedEvent) and _has_stream(candidates(each))]
        followers = self._followers([each.event for each in for_streams])
        return [each if isinstance(each, Failed) else _address(each, candidates(each), followers) for each in events]

    def _followers(self, events: list[CheckedEvent]) -> _FollowerRows:
        digests = {digest for event in events for digest in subjects.matching_digests(event.subject)}
        prefetched = {digest: self._conn.prefetch(SQL.followers, subject_hash=digest) for digest in digests}
        return {digest: [(stream, is_added) for stream, is_added in rows()] for digest, rows in prefetched.items()}


def _has_stream(clients: list[_ClientRow]) -> bool:
    return any(client.stream is not None for client in clients)


def _address(targeted: TargetedEvent, clients: list[_ClientRow], followers: _FollowerRows) -> AddressedEvent | Failed:
    event = targeted.event
    if targeted.client_id is not None and not clients:
        return Failed(NotFound(f"there is no client {targeted.client_id}"))
    if targeted.client_id is not None and clients[0].stream is None and event.sub is None:
        return Failed(BadInput("sub", "a value: the client is not a Shared Signals receiver"))
    follow_states = _follow_states(event, followers) if _has_stream(clients) else {}
    found = (_recipient(client, event, follow_states) for client in clients)
    return AddressedEvent(event, [recipient for recipient in found if recipient is not None])


def _follow_states(event: CheckedEvent, followers: _FollowerRows) -> dict[int, bool]:
    """Return for each stream with a preference whether it follows the subject. The most specific preference wins."""
    states: dict[int, bool] = {}
    for digest in subjects.matching_digests(event.subject):
        for stream, is_added in followers[digest]:
            states.setdefault(stream, bool(is_added))
    return states


def _recipient(client: _ClientRow, event: CheckedEvent, follow_states: dict[int, bool]) -> Recipient | None:
    if client.stream is not None:
        is_followed = follow_states.get(client.stream, bool(client.all_subjects))
        is_recipient = client.stream_status != "disabled" and is_followed
        types = _subscribed_types(client.events_delivered, event) if is_recipient else []
    else:
        types = _subscribed_types(client.event_types, event) if event.sub is not None else []
    return Recipient(client.client, client.client_id, types, client.stream) if types else None


def _subscribed_types(types: str | None, event: CheckedEvent) -> list[str]:
    """Return the event's types that the JSON list `types` contains; all of them if there is no list."""
    if types is None:
        return list(event.events)
    subscribed = set(msgspec.json.decode(types, type=list[str]))
    return [name for name in event.events if name in subscribed]
