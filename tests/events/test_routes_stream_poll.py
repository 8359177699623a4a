"""The poll of a stream over HTTP: what it hands out as its status says, acknowledgements, errors, another's streams."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.delivery.presence import Presence
from restante.events import streams
from restante.events.event_catalogue import SUPPORTED_BY_DEFAULT
from restante.events.eviction import write_last_poll
from restante.events.inbox import SHARED_SIGNALS, InboxOptions
from restante.events.poll import EventPoll, PollOptions
from restante.events.routes_stream_poll import StreamPollRoutes
from restante.events.ssf_wire import SHAPE
from restante.events.streams import Stream, StreamRules, StreamWish
from restante.events.totals import EventTotals
from tests.events.desk import Desk, DeskClient
from tests.events.pushing import add_event, event_of, token_of


@pytest.fixture
def desk(database: Database, monkeypatch: pytest.MonkeyPatch) -> Desk:
    options = PollOptions(inbox=InboxOptions(), events_max=2, wait_seconds=0)
    presence = Presence(database, write_last_poll)
    poll = EventPoll(database, options, presence, EventTotals(), profile=SHARED_SIGNALS, shape=SHAPE)
    # What commits announce is not heard here: nothing is known of any inbox, and every poll looks.
    monkeypatch.setattr(poll.bell, "learn_empty", lambda *_: None)
    return Desk(database, StreamPollRoutes(database, poll).routes())


@pytest.fixture
def client(desk: Desk) -> DeskClient:
    return desk.new_client()


@pytest.fixture
def stream(database: Database, client: DeskClient) -> Stream:
    return database.write_now(streams.create, StreamRules(SUPPORTED_BY_DEFAULT), client.id, StreamWish())


def add(database: Database, stream: Stream) -> str:
    return add_event(database, stream.client, profile="shared-signals", stream=stream.id)


async def poll(client: DeskClient, stream: Stream, **body: Any) -> tuple[dict[str, Any], str]:
    """The answer's body, and what it says of the stream."""
    answer = await client.ask("POST", f"/ssf/streams/{stream.public_id}/poll", {"returnImmediately": True, **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found, answer.headers["ssf-stream-status"]


async def test_events_are_handed_out_oldest_first_and_acknowledged(
    database: Database, client: DeskClient, stream: Stream
) -> None:
    first, second, third = (add(database, stream) for _ in range(3))
    found, status = await poll(client, stream)
    assert list(found["sets"].items()) == [(first, token_of(first)), (second, token_of(second))]
    assert (found["moreAvailable"], status) == (True, "enabled")
    found, _status = await poll(client, stream, ack=[first], setErrs={second: {"err": "invalid_state"}})
    assert (list(found["sets"]), found["moreAvailable"]) == ([third], False)
    assert event_of(database, first)["status"] == "acknowledged"
    assert (event_of(database, second)["status"], event_of(database, second)["err"]) == ("errored", "invalid_state")


async def test_zero_events_acknowledge_only(database: Database, client: DeskClient, stream: Stream) -> None:
    first, _second = add(database, stream), add(database, stream)
    found, _status = await poll(client, stream, maxEvents=0, ack=[first], returnImmediately=False)
    assert found == {"sets": {}, "moreAvailable": True}
    assert event_of(database, first)["status"] == "acknowledged"


async def test_an_empty_body_and_unknown_members_are_a_poll(client: DeskClient, stream: Stream) -> None:
    path = f"/ssf/streams/{stream.public_id}/poll"
    assert (await client.ask("POST", path)).json() == {"sets": {}, "moreAvailable": False}
    assert (await client.ask("POST", path, {"colour": 1})).status_code == 200


async def test_a_paused_stream_hands_out_nothing_and_says_so(
    database: Database, client: DeskClient, stream: Stream
) -> None:
    jti = add(database, stream)
    database.write_now(streams.set_status, client.id, stream.public_id, "paused", None)
    assert await poll(client, stream) == ({"sets": {}, "moreAvailable": False}, "paused")
    assert await poll(client, stream, maxEvents=0) == ({"sets": {}, "moreAvailable": False}, "paused")
    database.write_now(streams.set_status, client.id, stream.public_id, "enabled", None)
    found, status = await poll(client, stream)
    assert (list(found["sets"]), status) == ([jti], "enabled")


async def test_a_disabled_stream_has_nothing(database: Database, client: DeskClient, stream: Stream) -> None:
    add(database, stream)
    database.write_now(streams.set_status, client.id, stream.public_id, "disabled", None)
    assert await poll(client, stream) == ({"sets": {}, "moreAvailable": False}, "disabled")
    database.write_now(streams.set_status, client.id, stream.public_id, "enabled", None)
    assert await poll(client, stream) == ({"sets": {}, "moreAvailable": False}, "enabled")


async def test_a_stream_that_we_stopped_hands_out_what_was_left(
    database: Database, client: DeskClient, stream: Stream
) -> None:
    before = add(database, stream)
    database.write_now(streams.set_status_ourselves, stream.public_id, "paused", None)
    beyond = add(database, stream)
    assert await poll(client, stream, maxEvents=0) == ({"sets": {}, "moreAvailable": True}, "paused")
    found, status = await poll(client, stream)
    assert status == "paused"
    assert before in found["sets"]
    assert beyond not in found["sets"]


async def test_other_profiles_events_are_not_in_the_stream(
    database: Database, client: DeskClient, stream: Stream
) -> None:
    add_event(database, client.id)
    assert (await poll(client, stream))[0]["sets"] == {}


async def test_anothers_and_an_absent_stream_look_the_same(
    database: Database, desk: Desk, client: DeskClient, stream: Stream
) -> None:
    other = desk.new_client()
    answers = [
        await other.ask("POST", f"/ssf/streams/{stream_id}/poll", {}) for stream_id in (stream.public_id, "absent")
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content


async def test_bad_polls_are_refused_in_the_rfcs_form(client: DeskClient, stream: Stream) -> None:
    path = f"/ssf/streams/{stream.public_id}/poll"
    for body, field in (({"maxEvents": -1}, "maxEvents"), ({"ack": "x"}, "ack"), ({"setErrs": {"a": {}}}, "setErrs")):
        answer = await client.ask("POST", path, body)
        assert (answer.status_code, answer.json()["err"]) == (400, "invalid_request")
        assert answer.json()["description"].startswith(field)
