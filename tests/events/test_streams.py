"""Streams: one for each client, its status and what that does to events, and the events about the stream itself."""

import json
from typing import Any

import pytest

from restante.core.errors import BadInput, Conflict, NotFound, TooManyRequests
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events import receivers, streams
from restante.events.event_catalogue import CAEP_EVENTS, STREAM_UPDATED, SUPPORTED_BY_DEFAULT, VERIFICATION
from restante.events.inbox import InboxChanged
from restante.events.publishing import EventsToSign
from restante.events.receivers import PushDue
from restante.events.streams import PushTo, Stream, StreamRules, StreamWish
from tests.conftest import ManualClock
from tests.events.pushing import add_client, add_event, event_of, receiver_of

RULES = StreamRules(SUPPORTED_BY_DEFAULT, verification_seconds=60)
URL = "https://receiver.example/events"

_LEFT = Query(
    "left",
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


def create(database: Database, client: int, wish: StreamWish | None = None) -> Stream:
    return database.write_now(streams.create, RULES, client, wish or StreamWish())


def change(database: Database, stream: Stream, wish: StreamWish) -> Stream:
    return database.write_now(streams.change, RULES, stream.client, stream.public_id, wish)


def set_status(database: Database, stream: Stream, status: streams.Status, reason: str | None = None) -> Stream:
    return database.write_now(streams.set_status, stream.client, stream.public_id, status, reason)


def left(database: Database, client: int) -> list[dict[str, Any]]:
    """The events about the stream itself and others, that are not acknowledged: their claims."""

    def read(conn: Connection) -> list[dict[str, Any]]:
        return [{"id": row["id"], **json.loads(row["text"])} for row in conn.all(_LEFT, client=client)]

    return database.read_now(read)


def open_through(database: Database, stream: Stream) -> int | None:
    row = database.read_now(lambda conn: conn.one(_OPEN_THROUGH, public_id=stream.public_id))
    assert row is not None
    found: int | None = row["open_through"]
    return found


def test_a_new_stream_is_enabled_polled_and_has_all_types(stream: Stream) -> None:
    assert (stream.status, stream.push_url, stream.events_requested) == ("enabled", None, None)
    assert stream.events_delivered == list(SUPPORTED_BY_DEFAULT)


def test_types_that_are_not_ours_are_not_delivered(database: Database, client: int) -> None:
    requested = ["urn:example:unknown", CAEP_EVENTS[1], CAEP_EVENTS[0]]
    stream = create(database, client, StreamWish(events_requested=requested))
    assert stream.events_requested == requested
    assert stream.events_delivered == [CAEP_EVENTS[0], CAEP_EVENTS[1]]


def test_there_is_one_stream_for_each_client(database: Database, stream: Stream) -> None:
    with pytest.raises(Conflict):
        create(database, stream.client)
    assert database.read_now(streams.list_all, stream.client) == [stream]
    assert database.read_now(streams.list_all, add_client(database)) == []


def test_anothers_looks_as_an_absent_one(database: Database, client: int, stream: Stream) -> None:
    other = add_client(database)
    for public_id in (stream.public_id, "absent"):
        with pytest.raises(NotFound, match="no such stream"):
            database.read_now(streams.get, other, public_id)
        with pytest.raises(NotFound, match="no such stream"):
            database.write_now(streams.change, RULES, other, public_id, StreamWish())
        with pytest.raises(NotFound, match="no such stream"):
            database.write_now(streams.delete, other, public_id)
        with pytest.raises(NotFound, match="no such stream"):
            database.write_now(streams.set_status, other, public_id, "paused", None)
        with pytest.raises(NotFound, match="no such stream"):
            database.write_now(streams.verify, RULES, other, public_id, None)
    assert database.read_now(streams.get, client, stream.public_id) == stream


def test_what_is_not_set_stays(database: Database, client: int) -> None:
    wish = StreamWish([CAEP_EVENTS[0]], "mine", PushTo(URL, b"sealed"))
    stream = create(database, client, wish)
    assert change(database, stream, StreamWish()) == stream
    assert receiver_of(database, client, "shared-signals")["sealed_authorization"] == b"sealed"
    changed = change(database, stream, StreamWish(None, None, None))
    assert (changed.events_requested, changed.description, changed.push_url) == (None, None, None)
    assert changed.events_delivered == list(SUPPORTED_BY_DEFAULT)


def test_pushing_has_a_receiver_of_its_own(database: Database, client: int) -> None:
    database.write_now(receivers.put, client, "open-banking", "https://tpp.example/")
    stream = create(database, client, StreamWish(push_to=PushTo(URL)))
    assert stream.push_url == URL
    assert change(database, stream, StreamWish(push_to=None)).push_url is None
    assert receiver_of(database, client)["url"] == "https://tpp.example/"


def test_a_paused_stream_stays_held_when_its_receiver_moves(database: Database, client: int) -> None:
    stream = create(database, client, StreamWish(push_to=PushTo(URL)))
    set_status(database, stream, "paused")
    change(database, stream, StreamWish(push_to=PushTo("https://new.example/")))
    assert receiver_of(database, client, "shared-signals")["open_through"] == 0


def test_a_paused_stream_keeps_its_events_and_an_enabled_one_hands_them_out(database: Database, client: int) -> None:
    stream = create(database, client, StreamWish(push_to=PushTo(URL)))
    jti = add_event(database, client, profile="shared-signals", stream=stream.id)
    paused = set_status(database, stream, "paused", "lunch")
    assert (paused.status, paused.status_reason) == ("paused", "lunch")
    assert event_of(database, jti)["status"] == "ready"
    assert open_through(database, stream) == 0
    assert receiver_of(database, client, "shared-signals")["open_through"] == 0
    heard: list[object] = []
    database.on_commit(heard.extend)
    enabled = set_status(database, stream, "enabled")
    assert (enabled.status, enabled.status_reason) == ("enabled", None)
    assert open_through(database, stream) is None
    assert receiver_of(database, client, "shared-signals")["open_through"] is None
    assert heard == [PushDue(), InboxChanged(client)]


def test_a_disabled_stream_keeps_nothing(database: Database, client: int, stream: Stream) -> None:
    dropped = [
        add_event(database, client, profile="shared-signals", stream=stream.id, status=status)
        for status in ("ready", "unsigned")
    ]
    kept = add_event(database, client)
    set_status(database, stream, "disabled")
    assert [event_of(database, jti)["status"] for jti in dropped] == ["dropped", "dropped"]
    assert event_of(database, kept)["status"] == "ready"


def test_a_receiver_that_changes_the_status_is_not_told_of_it(database: Database, client: int, stream: Stream) -> None:
    changes: list[streams.Status] = ["paused", "disabled", "enabled"]
    for status in changes:
        set_status(database, stream, status)
    assert left(database, client) == []


def test_who_is_disabled_by_us_is_told_as_the_last_thing(database: Database, client: int, stream: Stream) -> None:
    before = add_event(database, client, profile="shared-signals", stream=stream.id)
    database.write_now(streams.set_status_ourselves, stream.public_id, "disabled", "maintenance")
    assert event_of(database, before)["status"] == "dropped"
    (told,) = left(database, client)
    assert told["events"] == {STREAM_UPDATED: {"status": "disabled", "reason": "maintenance"}}
    assert told["sub_id"] == {"format": "opaque", "id": stream.public_id}
    assert open_through(database, stream) == told["id"]


def test_who_is_paused_by_us_still_gets_what_was_left_and_the_news(
    database: Database, client: int, stream: Stream
) -> None:
    database.write_now(streams.set_status_ourselves, stream.public_id, "paused", None)
    (told,) = left(database, client)
    assert told["events"] == {STREAM_UPDATED: {"status": "paused"}}
    assert open_through(database, stream) == told["id"]


def test_who_is_enabled_by_us_is_told_first(database: Database, client: int, stream: Stream) -> None:
    set_status(database, stream, "disabled")
    database.write_now(streams.set_status_ourselves, stream.public_id, "enabled", None)
    (told,) = left(database, client)
    assert told["events"] == {STREAM_UPDATED: {"status": "enabled"}}
    assert open_through(database, stream) is None


def test_nobody_is_told_of_what_is_so_already(database: Database, client: int, stream: Stream) -> None:
    assert database.write_now(streams.set_status_ourselves, stream.public_id, "enabled", None) == stream
    assert left(database, client) == []
    with pytest.raises(NotFound):
        database.write_now(streams.set_status_ourselves, "absent", "paused", None)


@pytest.mark.parametrize(("state", "members"), [("abc", {"state": "abc"}), (None, {})])
def test_a_verification_event_comes_through_the_stream(
    database: Database, client: int, stream: Stream, state: str | None, members: dict[str, str]
) -> None:
    heard: list[object] = []
    database.on_commit(heard.extend)
    database.write_now(streams.verify, RULES, client, stream.public_id, state)
    (told,) = left(database, client)
    assert told["events"] == {VERIFICATION: members}
    assert told["sub_id"] == {"format": "opaque", "id": stream.public_id}
    assert "sub" not in told
    assert heard == [EventsToSign(1)]


def test_verification_is_not_given_more_often_than_said(
    database: Database, client: int, stream: Stream, clock: ManualClock
) -> None:
    database.write_now(streams.verify, RULES, client, stream.public_id, None)
    clock.advance(59.5)
    with pytest.raises(TooManyRequests) as refused:
        database.write_now(streams.verify, RULES, client, stream.public_id, None)
    assert refused.value.retry_after_seconds == 1
    assert len(left(database, client)) == 1
    clock.advance(0.5)
    database.write_now(streams.verify, RULES, client, stream.public_id, None)
    assert len(left(database, client)) == 2


def test_a_disabled_stream_is_not_verified(database: Database, client: int, stream: Stream) -> None:
    set_status(database, stream, "disabled")
    with pytest.raises(BadInput, match="stream_id"):
        database.write_now(streams.verify, RULES, client, stream.public_id, None)


def test_a_deleted_stream_leaves_nothing(database: Database, client: int) -> None:
    stream = create(database, client, StreamWish(push_to=PushTo(URL)))
    jti = add_event(database, client, profile="shared-signals", stream=stream.id)
    database.write_now(streams.delete, client, stream.public_id)
    assert database.read_now(streams.list_all, client) == []
    assert event_of(database, jti)["status"] == "dropped"
    assert receiver_of(database, client, "shared-signals") == {}
    assert create(database, client).public_id != stream.public_id
