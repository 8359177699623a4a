"""Streams: one for each client, the effect of their status on events, and the events about the stream itself."""

import json
from typing import Any

import pytest

from restante.core.errors import BadInput, Conflict, NotFound, TooManyRequests
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events.inbox.inbox import InboxChanged
from restante.events.publishing.catalogue import CAEP_EVENTS, STREAM_UPDATED, SUPPORTED_BY_DEFAULT, VERIFICATION
from restante.events.publishing.publishing import EventsToSign
from restante.events.push import receivers
from restante.events.push.receivers import PushDue
from restante.events.ssf import streams
from restante.events.ssf.streams import PushTarget, Stream, StreamRequest
from tests.conftest import ManualClock
from tests.events.default_options import stream_rules
from tests.events.push_fixture import add_client, add_event, event_of, receiver_of

RULES = stream_rules(verification_seconds=60)
URL = "https://receiver.example/events"

_OPEN_EVENTS = Query(
    "open_events",
    """SELECT i.id, i.event_types, i.stream, t.text FROM event_inbox i
       JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id
       WHERE i.client = :client AND i.status IN ('unsigned', 'ready') ORDER BY i.id""",
)
_OPEN_THROUGH = Query("open_through", "SELECT open_through FROM event_streams WHERE public_id = :public_id")


@pytest.fixture
def client(database: Database) -> int:
    return add_client(database)


@pytest.fixture
def stream(database: Database, client: int) -> Stream:
    return create(database, client)


def create(database: Database, client: int, request: StreamRequest | None = None) -> Stream:
    return database.write_now(streams.create, RULES, client, request or StreamRequest())


def change(database: Database, stream: Stream, request: StreamRequest) -> Stream:
    return database.write_now(streams.change, RULES, stream.client, stream.public_id, request)


def set_status(database: Database, stream: Stream, status: streams.StreamStatus, reason: str | None = None) -> Stream:
    return database.write_now(streams.set_status, stream.client, stream.public_id, status, reason)


def open_events(database: Database, client: int) -> list[dict[str, Any]]:
    """Return the claims of all unacknowledged events of the client."""

    def read(conn: Connection) -> list[dict[str, Any]]:
        return [{"id": row["id"], **json.loads(row["text"])} for row in conn.all(_OPEN_EVENTS, client=client)]

    return database.read_now(read)


def open_through(database: Database, stream: Stream) -> int | None:
    row = database.read_now(lambda conn: conn.one(_OPEN_THROUGH, public_id=stream.public_id))
    assert row is not None
    found: int | None = row["open_through"]
    return found


def test_new_stream_is_enabled_polled_and_has_all_types(stream: Stream) -> None:
    assert (stream.status, stream.push_url, stream.events_requested) == ("enabled", None, None)
    assert stream.events_delivered == list(SUPPORTED_BY_DEFAULT)


def test_unsupported_types_are_not_delivered(database: Database, client: int) -> None:
    requested = ["urn:example:unknown", CAEP_EVENTS[1], CAEP_EVENTS[0]]
    stream = create(database, client, StreamRequest(events_requested=requested))
    assert stream.events_requested == requested
    assert stream.events_delivered == [CAEP_EVENTS[0], CAEP_EVENTS[1]]


def test_client_has_at_most_one_stream(database: Database, stream: Stream) -> None:
    with pytest.raises(Conflict):
        create(database, stream.client)
    assert database.read_now(streams.list_all, stream.client) == [stream]
    assert database.read_now(streams.list_all, add_client(database)) == []


def test_missing_and_foreign_stream_raise_the_same_error(database: Database, client: int, stream: Stream) -> None:
    other = add_client(database)
    for public_id in (stream.public_id, "absent"):
        with pytest.raises(NotFound, match="no such stream"):
            database.read_now(streams.get, other, public_id)
        with pytest.raises(NotFound, match="no such stream"):
            database.write_now(streams.change, RULES, other, public_id, StreamRequest())
        with pytest.raises(NotFound, match="no such stream"):
            database.write_now(streams.delete, other, public_id)
        with pytest.raises(NotFound, match="no such stream"):
            database.write_now(streams.set_status, other, public_id, "paused", None)
        with pytest.raises(NotFound, match="no such stream"):
            database.write_now(streams.verify, RULES, other, public_id, None)
    assert database.read_now(streams.get, client, stream.public_id) == stream


def test_unset_values_are_kept(database: Database, client: int) -> None:
    request = StreamRequest([CAEP_EVENTS[0]], "mine", PushTarget(URL, b"sealed"))
    stream = create(database, client, request)
    assert change(database, stream, StreamRequest()) == stream
    assert receiver_of(database, client, "shared-signals")["sealed_authorization"] == b"sealed"
    changed = change(database, stream, StreamRequest(None, None, None))
    assert (changed.events_requested, changed.description, changed.push_url) == (None, None, None)
    assert changed.events_delivered == list(SUPPORTED_BY_DEFAULT)


def test_stream_has_its_own_receiver(database: Database, client: int) -> None:
    database.write_now(receivers.set_receiver, client, "open-banking", "https://tpp.example/")
    stream = create(database, client, StreamRequest(push_target=PushTarget(URL)))
    assert stream.push_url == URL
    assert change(database, stream, StreamRequest(push_target=None)).push_url is None
    assert receiver_of(database, client)["url"] == "https://tpp.example/"


def test_paused_stream_stays_paused_when_its_url_changes(database: Database, client: int) -> None:
    stream = create(database, client, StreamRequest(push_target=PushTarget(URL)))
    set_status(database, stream, "paused")
    change(database, stream, StreamRequest(push_target=PushTarget("https://new.example/")))
    assert receiver_of(database, client, "shared-signals")["open_through"] == 0


def test_paused_stream_keeps_events_until_it_is_enabled(database: Database, client: int) -> None:
    stream = create(database, client, StreamRequest(push_target=PushTarget(URL)))
    jti = add_event(database, client, profile="shared-signals", stream=stream.id)
    paused = set_status(database, stream, "paused", "lunch")
    assert (paused.status, paused.status_reason) == ("paused", "lunch")
    assert event_of(database, jti)["status"] == "ready"
    assert open_through(database, stream) == 0
    assert receiver_of(database, client, "shared-signals")["open_through"] == 0
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    enabled = set_status(database, stream, "enabled")
    assert (enabled.status, enabled.status_reason) == ("enabled", None)
    assert open_through(database, stream) is None
    assert receiver_of(database, client, "shared-signals")["open_through"] is None
    assert commit_events == [PushDue(), InboxChanged(client)]


def test_disabled_stream_drops_its_events(database: Database, client: int, stream: Stream) -> None:
    dropped = [
        add_event(database, client, profile="shared-signals", stream=stream.id, status=status)
        for status in ("ready", "unsigned")
    ]
    kept = add_event(database, client)
    set_status(database, stream, "disabled")
    assert [event_of(database, jti)["status"] for jti in dropped] == ["dropped", "dropped"]
    assert event_of(database, kept)["status"] == "ready"


def test_status_change_by_the_receiver_publishes_no_event(database: Database, client: int, stream: Stream) -> None:
    changes: list[streams.StreamStatus] = ["paused", "disabled", "enabled"]
    for status in changes:
        set_status(database, stream, status)
    assert open_events(database, client) == []


def test_stream_disabled_by_an_operator_gets_a_last_event(database: Database, client: int, stream: Stream) -> None:
    before = add_event(database, client, profile="shared-signals", stream=stream.id)
    database.write_now(streams.set_status_by_operator, stream.public_id, "disabled", "maintenance")
    assert event_of(database, before)["status"] == "dropped"
    (event,) = open_events(database, client)
    assert event["events"] == {STREAM_UPDATED: {"status": "disabled", "reason": "maintenance"}}
    assert event["sub_id"] == {"format": "opaque", "id": stream.public_id}
    assert open_through(database, stream) == event["id"]


def test_stream_paused_by_an_operator_gets_earlier_events_and_a_last_event(
    database: Database, client: int, stream: Stream
) -> None:
    database.write_now(streams.set_status_by_operator, stream.public_id, "paused", None)
    (event,) = open_events(database, client)
    assert event["events"] == {STREAM_UPDATED: {"status": "paused"}}
    assert open_through(database, stream) == event["id"]


def test_stream_enabled_by_an_operator_gets_an_event_first(database: Database, client: int, stream: Stream) -> None:
    set_status(database, stream, "disabled")
    database.write_now(streams.set_status_by_operator, stream.public_id, "enabled", None)
    (event,) = open_events(database, client)
    assert event["events"] == {STREAM_UPDATED: {"status": "enabled"}}
    assert open_through(database, stream) is None


def test_unchanged_status_publishes_no_event(database: Database, client: int, stream: Stream) -> None:
    assert database.write_now(streams.set_status_by_operator, stream.public_id, "enabled", None) == stream
    assert open_events(database, client) == []
    with pytest.raises(NotFound):
        database.write_now(streams.set_status_by_operator, "absent", "paused", None)


@pytest.mark.parametrize(("state", "members"), [("abc", {"state": "abc"}), (None, {})])
def test_verification_event_is_published_to_the_stream(
    database: Database, client: int, stream: Stream, state: str | None, members: dict[str, str]
) -> None:
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    database.write_now(streams.verify, RULES, client, stream.public_id, state)
    (event,) = open_events(database, client)
    assert event["events"] == {VERIFICATION: members}
    assert event["sub_id"] == {"format": "opaque", "id": stream.public_id}
    assert "sub" not in event
    assert commit_events == [EventsToSign(1)]


def test_verification_is_rate_limited(database: Database, client: int, stream: Stream, clock: ManualClock) -> None:
    database.write_now(streams.verify, RULES, client, stream.public_id, None)
    clock.advance(59.5)
    with pytest.raises(TooManyRequests) as refused:
        database.write_now(streams.verify, RULES, client, stream.public_id, None)
    assert refused.value.retry_after_seconds == 1
    assert len(open_events(database, client)) == 1
    clock.advance(0.5)
    database.write_now(streams.verify, RULES, client, stream.public_id, None)
    assert len(open_events(database, client)) == 2


def test_disabled_stream_cannot_be_verified(database: Database, client: int, stream: Stream) -> None:
    set_status(database, stream, "disabled")
    with pytest.raises(BadInput, match="stream_id"):
        database.write_now(streams.verify, RULES, client, stream.public_id, None)


def test_deleted_stream_leaves_nothing(database: Database, client: int) -> None:
    stream = create(database, client, StreamRequest(push_target=PushTarget(URL)))
    jti = add_event(database, client, profile="shared-signals", stream=stream.id)
    database.write_now(streams.delete, client, stream.public_id)
    assert database.read_now(streams.list_all, client) == []
    assert event_of(database, jti)["status"] == "dropped"
    assert receiver_of(database, client, "shared-signals") == {}
    assert create(database, client).public_id != stream.public_id
