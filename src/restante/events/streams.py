"""Streams of shared signals: what a receiver asked for, whether it is sent anything, and the events about the stream
itself. One for each client.

    enabled    events are handed out
    paused     events are kept, and handed out when it is enabled again
    disabled   events are not kept; what was left is dropped

Must always hold: a stream that the receiver stopped hands out nothing more; one that we stopped ourselves still hands
out what was left until then and, as the last, the event that says so (`stream-updated`): up to `open_through`.
"""

import json
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, UnsetType

from restante.core.errors import BadInput, Conflict, NotFound, TooManyRequests
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.events import publishing, receivers
from restante.events.claims import checked_event
from restante.events.event_catalogue import STREAM_UPDATED, VERIFICATION
from restante.events.inbox import InboxChanged
from restante.events.public_ids import known_form
from restante.events.recipients import Recipient, Sending

SQL = queries_beside(__file__)

PROFILE: receivers.Profile = "shared-signals"
NOT_THERE = "there is no such stream"

Status = Literal["enabled", "paused", "disabled"]


class Stream(NamedTuple):
    id: int
    public_id: str
    client: int
    client_id: str
    status: Status
    status_reason: str | None
    events_requested: list[str] | None
    events_delivered: list[str]
    description: str | None
    push_url: str | None


class PushTo(NamedTuple):
    """Where events are pushed (RFC 8935), with the Authorization that is shown there, sealed."""

    url: str
    sealed_authorization: bytes | None = None


class StreamWish(NamedTuple):
    """What a receiver asks for; what is not set stays as it is. No types: all that are supported. No push: polling."""

    events_requested: list[str] | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    push_to: PushTo | UnsetType | None = UNSET


class StreamRules(NamedTuple):
    """What we offer."""

    events_supported: tuple[str, ...]
    all_subjects: bool = True
    verification_seconds: int = 60
    subjects_max: int = 100_000

    def delivered(self, requested: list[str] | None) -> list[str]:
        """Those of our types that were asked for, in our order."""
        return [name for name in self.events_supported if requested is None or name in requested]


def create(conn: Connection, rules: StreamRules, client: int, wish: StreamWish) -> Stream:
    """The client's one stream, enabled."""
    requested = None if wish.events_requested is UNSET else wish.events_requested
    row = conn.one(
        SQL.insert_stream,
        public_id=publishing.new_name(),
        client=client,
        events_requested=_encoded(requested),
        events_delivered=json.dumps(rules.delivered(requested)),
        description=None if wish.description is UNSET else wish.description,
        all_subjects=int(rules.all_subjects),
        now_ms=conn.now_ms,
    )
    if row is None:
        raise Conflict("there is a stream of this client already")
    if wish.push_to is not UNSET and wish.push_to is not None:
        receivers.put(conn, client, PROFILE, wish.push_to.url, wish.push_to.sealed_authorization)
    return get(conn, client, row["public_id"])


def list_all(conn: Connection, client: int) -> list[Stream]:
    return [_stream(row) for row in conn.all(SQL.streams_of, client=client)]


def list_some(conn: Connection, after: int, limit: int) -> list[Stream]:
    """Streams of all clients, in the order of their rows."""
    return [_stream(row) for row in conn.all(SQL.streams, after=after, limit=limit)]


def get(conn: Connection, client: int, public_id: str) -> Stream:
    """The client's stream; another's looks as one that is not there."""
    row = conn.one(SQL.stream, client=client, public_id=known_form(public_id, NOT_THERE))
    if row is None:
        raise NotFound(NOT_THERE)
    return _stream(row)


def locked(conn: Connection, client: int, public_id: str) -> Stream:
    """As `get`, for who is about to change it: others who are wait until that is done."""
    row = conn.one(SQL.lock_stream, client=client, public_id=known_form(public_id, NOT_THERE))
    if row is None:
        raise NotFound(NOT_THERE)
    return _stream(row)


def change(conn: Connection, rules: StreamRules, client: int, public_id: str, wish: StreamWish) -> Stream:
    """Change what is set in the wish; types count for what is published from now on."""
    before = locked(conn, client, public_id)
    requested = before.events_requested if wish.events_requested is UNSET else wish.events_requested
    conn.run(
        SQL.change_stream,
        id=before.id,
        events_requested=_encoded(requested),
        events_delivered=json.dumps(rules.delivered(requested)),
        description=before.description if wish.description is UNSET else wish.description,
        now_ms=conn.now_ms,
    )
    if wish.push_to is None:
        receivers.remove(conn, client, PROFILE)
    elif wish.push_to is not UNSET:
        receivers.put(conn, client, PROFILE, wish.push_to.url, wish.push_to.sealed_authorization)
        if before.status != "enabled":
            receivers.hold(conn, client, PROFILE, 0)
    return get(conn, client, public_id)


def delete(conn: Connection, client: int, public_id: str) -> None:
    """The stream and whatever was left in it."""
    stream = locked(conn, client, public_id)
    receivers.remove(conn, client, PROFILE)
    conn.run(SQL.drop_events, client=client, now_ms=conn.now_ms)
    conn.run(SQL.delete_subjects, stream=stream.id)
    conn.run(SQL.delete_stream, id=stream.id)


def set_status(conn: Connection, client: int, public_id: str, status: Status, reason: str | None) -> Stream:
    """As the receiver wishes: at once, and without an event about it."""
    stream = locked(conn, client, public_id)
    _enter(conn, stream, status, reason, open_through=0)
    return get(conn, client, public_id)


def set_status_ourselves(conn: Connection, public_id: str, status: Status, reason: str | None) -> Stream:
    """As an operator wishes: the receiver is told, as the last thing before the stream stops or the first after."""
    row = conn.one(SQL.lock_any_stream, public_id=known_form(public_id, NOT_THERE))
    if row is None:
        raise NotFound(NOT_THERE)
    stream = _stream(row)
    if (stream.status, stream.status_reason) == (status, reason):
        return stream
    if status == "disabled":
        conn.run(SQL.drop_events, client=stream.client, now_ms=conn.now_ms)
    told = {"status": status, **({} if reason is None else {"reason": reason})}
    last = _tell(conn, stream, STREAM_UPDATED, told)
    _enter(conn, stream, status, reason, open_through=last, drops=False)
    return get(conn, stream.client, public_id)


def verify(conn: Connection, rules: StreamRules, client: int, public_id: str, state: str | None) -> None:
    """Leave a verification event in the stream, not more often than we said."""
    stream = locked(conn, client, public_id)
    if stream.status == "disabled":
        raise BadInput("stream_id", "a stream that is not disabled")
    row = conn.one(SQL.verified_at, id=stream.id)
    since_ms = None if row is None or row["verified_at"] is None else conn.now_ms - row["verified_at"]
    if since_ms is not None and since_ms < rules.verification_seconds * 1000:
        wait_seconds = -(-(rules.verification_seconds * 1000 - since_ms) // 1000)
        raise TooManyRequests("the stream was verified just now", retry_after_seconds=wait_seconds)
    conn.run(SQL.note_verified, id=stream.id, now_ms=conn.now_ms)
    _tell(conn, stream, VERIFICATION, {} if state is None else {"state": state})


def _enter(
    conn: Connection, stream: Stream, status: Status, reason: str | None, *, open_through: int, drops: bool = True
) -> None:
    is_flowing = status == "enabled"
    through = None if is_flowing else open_through
    conn.run(SQL.set_status, id=stream.id, status=status, reason=reason, open_through=through, now_ms=conn.now_ms)
    if is_flowing:
        receivers.let_go(conn, stream.client, PROFILE)
        conn.announce(InboxChanged(stream.client))
        return
    receivers.hold(conn, stream.client, PROFILE, open_through)
    if status == "disabled" and drops:
        conn.run(SQL.drop_events, client=stream.client, now_ms=conn.now_ms)


def _tell(conn: Connection, stream: Stream, event_type: str, members: dict[str, Any]) -> int:
    """Leave an event about the stream itself in it, whatever was asked for; its row."""
    about = {"format": "opaque", "id": stream.public_id}
    event = checked_event({event_type: members}, publishing.new_name(), conn.now_ms // 1000, sub_id=about)
    recipient = Recipient(stream.client, stream.client_id, [event_type], stream.id)
    ((jti,),) = publishing.queue(conn, [Sending(event, [recipient])])
    row = conn.one(SQL.row_of, jti=jti)
    assert row is not None  # noqa: S101 — it was inserted in this very transaction
    return int(row["id"])


def _encoded(requested: list[str] | None) -> str | None:
    return None if requested is None else json.dumps(requested)


def _stream(row: Row) -> Stream:
    requested = None if row["events_requested"] is None else json.loads(row["events_requested"])
    delivered = json.loads(row["events_delivered"])
    values = {column: row[column] for column in Stream._fields}
    return Stream(**{**values, "events_requested": requested, "events_delivered": delivered})
