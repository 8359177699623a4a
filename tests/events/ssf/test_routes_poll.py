"""The poll route of a stream: delivery by status, acknowledgements, errors, and foreign streams."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.delivery.presence import Presence
from restante.events.counters import EventCounters
from restante.events.inbox.inbox import SHARED_SIGNALS
from restante.events.inbox.inbox_retention import write_last_poll
from restante.events.inbox.poll import EventPoll
from restante.events.ssf import streams
from restante.events.ssf.routes_poll import StreamPollRoutes
from restante.events.ssf.streams import Stream, StreamRequest
from tests.events.client_app import AppClient, ClientApp
from tests.events.default_options import inbox_options, poll_options, stream_rules
from tests.events.inbox_fixture import token_of
from tests.events.push_fixture import add_event, event_of


@pytest.fixture
def app(database: Database, monkeypatch: pytest.MonkeyPatch) -> ClientApp:
    options = poll_options(inbox=inbox_options(), events_max=2, wait_seconds=0)
    presence = Presence(database, write_last_poll)
    poll = EventPoll(database, options, presence, EventCounters(), profile=SHARED_SIGNALS)
    # No commit events are handled here, so the poll must not remember empty inboxes.
    monkeypatch.setattr(poll.waiters, "learn_empty", lambda *_: None)
    return ClientApp(database, StreamPollRoutes(database, poll).routes())


@pytest.fixture
def stream(database: Database, client: AppClient) -> Stream:
    return database.write_now(streams.create, stream_rules(), client.id, StreamRequest())


def add(database: Database, stream: Stream) -> str:
    return add_event(database, stream.client, profile="shared-signals", stream=stream.id)


async def poll(client: AppClient, stream: Stream, **body: Any) -> tuple[dict[str, Any], str]:
    """Poll; return the response body and the stream status header."""
    response = await client.request(
        "POST", f"/ssf/streams/{stream.public_id}/poll", {"returnImmediately": True, **body}
    )
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found, response.headers["ssf-stream-status"]


async def test_events_are_delivered_oldest_first_and_acknowledged(
    database: Database, client: AppClient, stream: Stream
) -> None:
    first, second, third = (add(database, stream) for _ in range(3))
    found, status = await poll(client, stream)
    assert list(found["sets"].items()) == [(first, token_of(first)), (second, token_of(second))]
    assert (found["moreAvailable"], status) == (True, "enabled")
    found, _status = await poll(client, stream, ack=[first], setErrs={second: {"err": "invalid_state"}})
    assert (list(found["sets"]), found["moreAvailable"]) == ([third], False)
    assert event_of(database, first)["status"] == "acknowledged"
    assert (event_of(database, second)["status"], event_of(database, second)["err"]) == ("errored", "invalid_state")


async def test_poll_for_zero_events_only_acknowledges(database: Database, client: AppClient, stream: Stream) -> None:
    first, _second = add(database, stream), add(database, stream)
    found, _status = await poll(client, stream, maxEvents=0, ack=[first], returnImmediately=False)
    assert found == {"sets": {}, "moreAvailable": True}
    assert event_of(database, first)["status"] == "acknowledged"


async def test_empty_body_and_unknown_members_are_accepted(client: AppClient, stream: Stream) -> None:
    path = f"/ssf/streams/{stream.public_id}/poll"
    assert (await client.request("POST", path)).json() == {"sets": {}, "moreAvailable": False}
    assert (await client.request("POST", path, {"colour": 1})).status_code == 200


async def test_paused_stream_delivers_nothing_and_shows_its_status(
    database: Database, client: AppClient, stream: Stream
) -> None:
    jti = add(database, stream)
    database.write_now(streams.set_status, client.id, stream.public_id, "paused", None)
    assert await poll(client, stream) == ({"sets": {}, "moreAvailable": False}, "paused")
    assert await poll(client, stream, maxEvents=0) == ({"sets": {}, "moreAvailable": False}, "paused")
    database.write_now(streams.set_status, client.id, stream.public_id, "enabled", None)
    found, status = await poll(client, stream)
    assert (list(found["sets"]), status) == ([jti], "enabled")


async def test_disabled_stream_has_no_events(database: Database, client: AppClient, stream: Stream) -> None:
    add(database, stream)
    database.write_now(streams.set_status, client.id, stream.public_id, "disabled", None)
    assert await poll(client, stream) == ({"sets": {}, "moreAvailable": False}, "disabled")
    database.write_now(streams.set_status, client.id, stream.public_id, "enabled", None)
    assert await poll(client, stream) == ({"sets": {}, "moreAvailable": False}, "enabled")


async def test_stream_paused_by_an_operator_delivers_earlier_events(
    database: Database, client: AppClient, stream: Stream
) -> None:
    before = add(database, stream)
    database.write_now(streams.set_status_by_operator, stream.public_id, "paused", None)
    after = add(database, stream)
    assert await poll(client, stream, maxEvents=0) == ({"sets": {}, "moreAvailable": True}, "paused")
    found, status = await poll(client, stream)
    assert status == "paused"
    assert before in found["sets"]
    assert after not in found["sets"]


async def test_events_of_the_other_profile_are_not_in_the_stream(
    database: Database, client: AppClient, stream: Stream
) -> None:
    add_event(database, client.id)
    assert (await poll(client, stream))[0]["sets"] == {}


async def test_missing_and_foreign_stream_get_the_same_404(
    database: Database, app: ClientApp, client: AppClient, stream: Stream
) -> None:
    other = app.new_client()
    responses = [
        await other.request("POST", f"/ssf/streams/{stream_id}/poll", {}) for stream_id in (stream.public_id, "absent")
    ]
    assert [response.status_code for response in responses] == [404, 404]
    assert responses[0].content == responses[1].content


async def test_invalid_poll_is_refused_with_the_ssf_error_body(client: AppClient, stream: Stream) -> None:
    path = f"/ssf/streams/{stream.public_id}/poll"
    for body, field in (({"maxEvents": -1}, "maxEvents"), ({"ack": "x"}, "ack"), ({"setErrs": {"a": {}}}, "setErrs")):
        response = await client.request("POST", path, body)
        assert (response.status_code, response.json()["err"]) == (400, "invalid_request")
        assert response.json()["description"].startswith(field)
