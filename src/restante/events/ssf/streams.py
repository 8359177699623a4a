"""Shared Signals streams: configuration, status, and the events about the stream itself. At most one for each client.

    enabled    events are delivered
    paused     events are kept, and delivered when the stream is enabled again
    disabled   events are dropped

Invariants:
- A stream that its receiver stopped delivers nothing more.
- A stream that an operator paused still delivers the events until then; after any stop by an operator, the last event
  delivered is the `stream-updated` event about it. `open_through` is the id of that event.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from restante.core.errors import BadInput, Conflict, NotFound, TooManyRequests
from restante.core.events.public_id import check_public_id
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events.clients import client_scope
from restante.events.inbox.inbox import InboxChanged
from restante.events.publishing import publishing
from restante.events.publishing.catalogue import STREAM_UPDATED, VERIFICATION
from restante.events.publishing.recipients import AddressedEvent, Recipient
from restante.events.publishing.token_claims import checked_event
from restante.events.push import receivers
from restante.identity.grants import ALL_IDS, AllowedIds

SQL = queries_beside(__file__)

PROFILE: receivers.Profile = "shared-signals"
NOT_FOUND = "there is no such stream"

StreamStatus = Literal["enabled", "paused", "disabled"]


@dataclass(frozen=True, slots=True)
class Stream:
    id: int
    public_id: str
    client: int
    client_id: str
    status: StreamStatus
    status_reason: str | None
    events_requested: list[str] | None
    events_delivered: list[str]
    description: str | None
    push_url: str | None


@dataclass(frozen=True, slots=True)
class PushTarget:
    """The URL for push (RFC 8935), and the sealed Authorization header for it."""

    url: str
    sealed_authorization: bytes | None = None


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """The values a receiver requests. UNSET keeps a value; None means all supported types, or polling."""

    events_requested: list[str] | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    push_target: PushTarget | UnsetType | None = UNSET


@dataclass(frozen=True, slots=True)
class StreamRules:
    """The limits and defaults of all streams."""

    events_supported: tuple[str, ...]
    all_subjects: bool
    verification_seconds: int
    subjects_max: int

    def delivered(self, requested: list[str] | None) -> list[str]:
        """Return the supported types that were requested, in the order of the supported ones."""
        return [name for name in self.events_supported if requested is None or name in requested]


def create(conn: Connection, rules: StreamRules, client: int, request: StreamRequest) -> Stream:
    """Create the client's stream, enabled; raise Conflict if it has one."""
    requested = None if request.events_requested is UNSET else request.events_requested
    row = conn.one(
        SQL.insert_stream,
        public_id=publishing.random_id(),
        client=client,
        events_requested=_encoded(requested),
        events_delivered=json.dumps(rules.delivered(requested)),
        description=None if request.description is UNSET else request.description,
        all_subjects=int(rules.all_subjects),
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict("the client already has a stream")
    if request.push_target is not UNSET and request.push_target is not None:
        receivers.set_receiver(conn, client, PROFILE, request.push_target.url, request.push_target.sealed_authorization)
    return get(conn, client, row["public_id"])


def list_all(conn: Connection, client: int) -> list[Stream]:
    return [_stream(row) for row in conn.all(SQL.streams_of, client=client)]


def list_after(conn: Connection, after: int, limit: int, allowed: AllowedIds = ALL_IDS) -> list[Stream]:
    """Streams of all allowed clients, in the order of their rows."""
    clients = client_scope.row_ids(conn, allowed)
    return [_stream(row) for row in conn.all(SQL.streams, after=after, clients=clients, limit=limit)]


def get(conn: Connection, client: int, public_id: str) -> Stream:
    """Return the client's stream; raise NotFound if it is missing or belongs to another client."""
    public_id = check_public_id(public_id, NOT_FOUND)
    for stream in list_all(conn, client):
        if stream.public_id == public_id:
            return stream
    raise NotFound(NOT_FOUND)


def get_for_update(conn: Connection, client: int | None, public_id: str) -> Stream:
    """`get` the stream, of any client if that is None, and lock it: concurrent changes wait."""
    row = conn.one(SQL.lock_stream, public_id=check_public_id(public_id, NOT_FOUND))
    if row is None:
        raise NotFound(NOT_FOUND)
    return get(conn, row["client"] if client is None else client, public_id)


def change(conn: Connection, rules: StreamRules, client: int, public_id: str, request: StreamRequest) -> Stream:
    """Change the values that the request sets; event types apply to events published later."""
    before = get_for_update(conn, client, public_id)
    requested = before.events_requested if request.events_requested is UNSET else request.events_requested
    conn.run(
        SQL.change_stream,
        id=before.id,
        events_requested=_encoded(requested),
        events_delivered=json.dumps(rules.delivered(requested)),
        description=before.description if request.description is UNSET else request.description,
        now_ms=conn.now_ms,
    )
    if request.push_target is None:
        receivers.remove_receiver(conn, client, PROFILE)
    elif request.push_target is not UNSET:
        receivers.set_receiver(conn, client, PROFILE, request.push_target.url, request.push_target.sealed_authorization)
        if before.status != "enabled":
            receivers.pause(conn, client, PROFILE, 0)
    return get(conn, client, public_id)


def delete(conn: Connection, client: int, public_id: str) -> None:
    """Delete the stream and drop its undelivered events."""
    stream = get_for_update(conn, client, public_id)
    receivers.remove_receiver(conn, client, PROFILE)
    conn.run(SQL.drop_events, client=client, now_ms=conn.now_ms)
    conn.run(SQL.delete_subjects, stream=stream.id)
    conn.run(SQL.delete_stream, id=stream.id)


def set_status(conn: Connection, client: int, public_id: str, status: StreamStatus, reason: str | None) -> Stream:
    """Change the status on the receiver's request: at once, and without an event about it."""
    stream = get_for_update(conn, client, public_id)
    _apply_status(conn, stream, status, reason, open_through=0)
    return get(conn, client, public_id)


def set_status_by_operator(
    conn: Connection, public_id: str, status: StreamStatus, reason: str | None, allowed: AllowedIds = ALL_IDS
) -> Stream:
    """Change the status on an operator's request, with an event: the last before a stop, or the first after a start."""
    stream = get_for_update(conn, None, public_id)
    if stream.client_id not in allowed:
        raise NotFound(NOT_FOUND)
    if (stream.status, stream.status_reason) == (status, reason):
        return stream
    if status == "disabled":
        conn.run(SQL.drop_events, client=stream.client, now_ms=conn.now_ms)
    members = {"status": status, **({} if reason is None else {"reason": reason})}
    last = _publish_stream_event(conn, stream, STREAM_UPDATED, members)
    _apply_status(conn, stream, status, reason, open_through=last, drops_events=False)
    return get(conn, stream.client, public_id)


def verify(conn: Connection, rules: StreamRules, client: int, public_id: str, state: str | None) -> None:
    """Publish a verification event to the stream, at most once in `verification_seconds`."""
    stream = get_for_update(conn, client, public_id)
    if stream.status == "disabled":
        raise BadInput("stream_id", "a stream that is not disabled")
    row = conn.one(SQL.verified_at, id=stream.id)
    since_ms = None if row is None or row["verified_at"] is None else conn.now_ms - row["verified_at"]
    if since_ms is not None and since_ms < rules.verification_seconds * 1000:
        wait_seconds = -(-(rules.verification_seconds * 1000 - since_ms) // 1000)
        raise TooManyRequests("the stream was verified recently", retry_after_seconds=wait_seconds)
    conn.run(SQL.set_verified_at, id=stream.id, now_ms=conn.now_ms)
    _publish_stream_event(conn, stream, VERIFICATION, {} if state is None else {"state": state})


def _apply_status(
    conn: Connection,
    stream: Stream,
    status: StreamStatus,
    reason: str | None,
    *,
    open_through: int,
    drops_events: bool = True,
) -> None:
    is_enabled = status == "enabled"
    through = None if is_enabled else open_through
    conn.run(SQL.set_status, id=stream.id, status=status, reason=reason, open_through=through, now_ms=conn.now_ms)
    if is_enabled:
        receivers.resume(conn, stream.client, PROFILE)
        conn.add_commit_event(InboxChanged(stream.client))
        return
    receivers.pause(conn, stream.client, PROFILE, open_through)
    if status == "disabled" and drops_events:
        conn.run(SQL.drop_events, client=stream.client, now_ms=conn.now_ms)


def _publish_stream_event(conn: Connection, stream: Stream, event_type: str, members: dict[str, Any]) -> int:
    """Publish an event about the stream to the stream itself, whatever its event types; return the event's row id."""
    about = {"format": "opaque", "id": stream.public_id}
    event = checked_event({event_type: members}, publishing.random_id(), conn.now_ms // 1000, sub_id=about)
    recipient = Recipient(stream.client, stream.client_id, [event_type], stream.id)
    ((jti,),) = publishing.enqueue(conn, [AddressedEvent(event, [recipient])])
    row = conn.one(SQL.event_row, jti=jti)
    assert row is not None  # noqa: S101 — inserted in this transaction
    return int(row["id"])


def _encoded(requested: list[str] | None) -> str | None:
    return None if requested is None else json.dumps(requested)


def _stream(row: Row) -> Stream:
    requested = None if row["events_requested"] is None else json.loads(row["events_requested"])
    delivered = json.loads(row["events_delivered"])
    return Stream(
        id=row["id"],
        public_id=row["public_id"],
        client=row["client"],
        client_id=row["client_id"],
        status=row["status"],
        status_reason=row["status_reason"],
        events_requested=requested,
        events_delivered=delivered,
        description=row["description"],
        push_url=row["push_url"],
    )
