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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.database.writer.batching import Failed
from restante.events.publishing import subjects
from restante.events.publishing.token_claims import CheckedEvent

SQL = queries_beside(__file__)

# How many clients are in memory at a time while an event goes to all subscribers.
PAGE_CLIENTS = 2000

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
    """A row of the queries `some` and `page`; column order matters."""

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
    """Reads clients and their subscriptions for many events at once. The constructor prefetches, `parts` waits.

        named clients only    one part
        all clients           a part for each page of clients, in the order of their ids; a named client is in one

    So the memory for an event to all subscribers does not depend on their number.
    """

    def __init__(self, conn: Connection, client_ids: Sequence[str | None]) -> None:
        """Prefetch these clients; None stands for all clients."""
        # PostgreSQL cannot parse a list with a NUL, and no client_id contains one.
        names = sorted({name for name in client_ids if name is not None and "\0" not in name})
        listed = _encoder.encode(names).decode()
        self._conn = conn
        self._some = conn.prefetch(SQL.some, client_ids=listed) if names else list
        self._first_page = self._prefetch_page(0) if None in client_ids else list
        self._followers: _FollowerRows = {}

    def parts(self, events: Sequence[TargetedEvent | Failed]) -> Iterator[list[AddressedEvent | Failed]]:
        """Find the recipients of each event, or fail with NotFound. An event that already failed stays failed.

        Each part has all events, in the same order, with the recipients among the part's clients.
        """
        named = {row[1]: _ClientRow(*row) for row in self._some()}
        for ids, page in self._pages():
            found = [_candidates(each, named, ids, page) for each in events]
            for_streams = (each for each, clients in zip(events, found, strict=True) if _has_stream(clients))
            self._read_followers([each.event for each in for_streams if isinstance(each, TargetedEvent)])
            yield [
                each if isinstance(each, Failed) else self._address(each, named, clients)
                for each, clients in zip(events, found, strict=True)
            ]

    def _pages(self) -> Iterator[tuple[range, list[_ClientRow]]]:
        """The clients in pages, each with the range of ids that it covers; the last one covers all ids that follow."""
        rows, after = self._first_page(), 0
        while len(rows) == PAGE_CLIENTS:
            last = rows[-1][0]
            yield range(after + 1, last + 1), [_ClientRow(*row) for row in rows]
            rows, after = self._prefetch_page(last)(), last
        yield range(after + 1, INT64_MAX), [_ClientRow(*row) for row in rows]

    def _prefetch_page(self, after: int) -> Callable[[], list[tuple[Any, ...]]]:
        return self._conn.prefetch(SQL.page, after=after, limit=PAGE_CLIENTS)

    def _read_followers(self, events: list[CheckedEvent]) -> None:
        digests = {digest for event in events for digest in subjects.matching_digests(event.subject)}
        missing = digests - self._followers.keys()
        prefetched = {digest: self._conn.prefetch(SQL.followers, subject_hash=digest) for digest in missing}
        for digest, rows in prefetched.items():
            self._followers[digest] = [(stream, is_added) for stream, is_added in rows()]

    def _address(
        self, targeted: TargetedEvent, named: Mapping[str, _ClientRow], clients: list[_ClientRow]
    ) -> AddressedEvent | Failed:
        event = targeted.event
        if targeted.client_id is not None:
            client = named.get(targeted.client_id)
            if client is None:
                return Failed(NotFound(f"there is no client {targeted.client_id}"))
            if client.stream is None and event.sub is None:
                return Failed(BadInput("sub", "a value: the client is not a Shared Signals receiver"))
        follow_states = _follow_states(event, self._followers) if _has_stream(clients) else {}
        found = (_recipient(client, event, follow_states) for client in clients)
        return AddressedEvent(event, [recipient for recipient in found if recipient is not None])


def _candidates(
    event: TargetedEvent | Failed, named: Mapping[str, _ClientRow], ids: range, page: list[_ClientRow]
) -> list[_ClientRow]:
    """The clients of this part that the event may go to."""
    if isinstance(event, Failed):
        return []
    if event.client_id is None:
        return page
    client = named.get(event.client_id)
    return [client] if client is not None and client.client in ids else []


def _has_stream(clients: list[_ClientRow]) -> bool:
    return any(client.stream is not None for client in clients)


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
