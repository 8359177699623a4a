"""Streams over HTTP: created, shown, changed, replaced, deleted, as the framework says, and what is refused."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.events.event_catalogue import CAEP_EVENTS, SUPPORTED_BY_DEFAULT
from restante.events.push import AUTHORIZATION_PURPOSE
from restante.events.routes_streams import StreamRoutes
from restante.events.ssf_options import SignalsOptions
from tests.events.desk import BASE, KEY, Desk, DeskClient, receiver_client
from tests.events.pushing import client_id_of, receiver_of

PATH = "/ssf/streams"
PUSHED = {"method": "urn:ietf:rfc:8935", "endpoint_url": "https://receiver.example/events"}
OPTIONS = SignalsOptions(issuer=BASE, base_url=BASE)


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database, StreamRoutes(database, receiver_client(), KEY, OPTIONS).routes())


@pytest.fixture
def client(desk: Desk) -> DeskClient:
    return desk.new_client()


async def created(client: DeskClient, body: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = await client.ask("POST", PATH, {} if body is None else body)
    assert answer.status_code == 201, answer.text
    stream: dict[str, Any] = answer.json()
    return stream


async def test_a_new_stream_is_polled_unless_it_says_otherwise(database: Database, client: DeskClient) -> None:
    stream = await created(client)
    stream_id = stream["stream_id"]
    assert stream == {
        "stream_id": stream_id,
        "iss": BASE,
        "aud": client_id_of(database, client.id),
        "delivery": {"method": "urn:ietf:rfc:8936", "endpoint_url": f"{BASE}/ssf/streams/{stream_id}/poll"},
        "events_supported": list(SUPPORTED_BY_DEFAULT),
        "events_delivered": list(SUPPORTED_BY_DEFAULT),
        "min_verification_interval": 60,
    }


async def test_without_a_body_too(client: DeskClient) -> None:
    answer = await client.ask("POST", PATH)
    assert answer.status_code == 201


async def test_what_was_asked_for_is_answered(client: DeskClient) -> None:
    requested = [CAEP_EVENTS[0], "urn:example:unknown"]
    stream = await created(client, {"delivery": PUSHED, "events_requested": requested, "description": "mine"})
    assert stream["delivery"] == PUSHED
    assert stream["events_requested"] == requested
    assert stream["events_delivered"] == [CAEP_EVENTS[0]]
    assert stream["description"] == "mine"


async def test_an_authorization_is_kept_sealed_and_never_shown(database: Database, client: DeskClient) -> None:
    stream = await created(client, {"delivery": {**PUSHED, "authorization_header": "Bearer s3cret"}})
    assert "s3cret" not in str(stream)
    sealed = receiver_of(database, client.id, "shared-signals")["sealed_authorization"]
    assert b"s3cret" not in sealed
    assert KEY.open(sealed, AUTHORIZATION_PURPOSE) == b"Bearer s3cret"


async def test_streams_are_listed_and_one_is_shown(client: DeskClient) -> None:
    assert (await client.ask("GET", PATH)).json() == []
    stream = await created(client)
    assert (await client.ask("GET", PATH)).json() == [stream]
    shown = await client.ask("GET", f"{PATH}?stream_id={stream['stream_id']}")
    assert (shown.status_code, shown.json()) == (200, stream)
    assert shown.headers["cache-control"] == "no-store"


async def test_a_second_one_is_a_conflict(client: DeskClient) -> None:
    await created(client)
    answer = await client.ask("POST", PATH, {})
    assert (answer.status_code, answer.json()["err"]) == (409, "conflict")


async def test_a_change_leaves_what_it_does_not_name(client: DeskClient) -> None:
    stream = await created(client, {"delivery": PUSHED, "events_requested": [CAEP_EVENTS[0]], "description": "mine"})
    changed = await client.ask("PATCH", PATH, {"stream_id": stream["stream_id"], "description": "yours"})
    assert (changed.status_code, changed.json()) == (200, {**stream, "description": "yours"})


async def test_a_replacement_takes_back_what_it_does_not_name(client: DeskClient) -> None:
    stream = await created(client, {"delivery": PUSHED, "events_requested": [CAEP_EVENTS[0]], "description": "mine"})
    replaced = (await client.ask("PUT", PATH, {"stream_id": stream["stream_id"], "description": "yours"})).json()
    assert replaced["delivery"]["method"] == "urn:ietf:rfc:8936"
    assert replaced["events_delivered"] == list(SUPPORTED_BY_DEFAULT)
    assert "events_requested" not in replaced
    assert replaced["description"] == "yours"


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
async def test_what_was_read_can_be_sent_back(client: DeskClient, method: str) -> None:
    stream = await created(client, {"events_requested": [CAEP_EVENTS[0]]})
    answer = await client.ask(method, PATH, stream)
    assert (answer.status_code, answer.json()) == (200, stream)


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iss", "https://other.example"),
        ("aud", "other"),
        ("events_supported", []),
        ("events_delivered", [CAEP_EVENTS[3]]),
        ("min_verification_interval", 1),
    ],
)
async def test_what_is_ours_to_say_is_not_changed(client: DeskClient, method: str, name: str, value: Any) -> None:
    stream = await created(client)
    answer = await client.ask(method, PATH, {"stream_id": stream["stream_id"], name: value})
    assert (answer.status_code, answer.json()["err"]) == (400, "invalid_request")
    assert answer.json()["description"].startswith(name)
    assert (await client.ask("GET", PATH)).json() == [stream]


BAD: dict[str, tuple[Any, str]] = {
    "no object": ([], "body"),
    "an unknown method": ({"delivery": {"method": "urn:x"}}, "delivery.method"),
    "a push to nowhere": ({"delivery": {"method": PUSHED["method"]}}, "delivery.endpoint_url"),
    "a push in the open": ({"delivery": {**PUSHED, "endpoint_url": "http://a.example/"}}, "delivery.endpoint_url"),
    "a push inside": ({"delivery": {**PUSHED, "endpoint_url": "https://inside.example/"}}, "delivery.endpoint_url"),
    "a header in a header": ({"delivery": {**PUSHED, "authorization_header": "a\r\nb: c"}}, "delivery.authorization"),
    "an address for polls": (
        {"delivery": {"method": "urn:ietf:rfc:8936", "endpoint_url": "https://a.example/"}},
        "delivery.endpoint_url",
    ),
    "an authorization for polls": (
        {"delivery": {"method": "urn:ietf:rfc:8936", "authorization_header": "x"}},
        "delivery.authorization_header",
    ),
    "types that are none": ({"events_requested": [1]}, "events_requested"),
    "no list": ({"events_requested": "x"}, "events_requested"),
    "a description too long": ({"description": "a" * 1025}, "description"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
async def test_bad_input_is_named_and_changes_nothing(client: DeskClient, name: str, method: str) -> None:
    body, field = BAD[name]
    if method != "POST":
        stream = await created(client, {"description": "mine"})
        body = body if isinstance(body, list) else {"stream_id": stream["stream_id"], **body}
    before = (await client.ask("GET", PATH)).json()
    answer = await client.ask(method, PATH, body)
    assert (answer.status_code, answer.json()["err"]) == (400, "invalid_request")
    assert answer.json()["description"].startswith(field)
    assert (await client.ask("GET", PATH)).json() == before


async def test_a_stream_is_deleted_once(client: DeskClient) -> None:
    stream_id = (await created(client))["stream_id"]
    assert (await client.ask("DELETE", PATH)).status_code == 400
    assert (await client.ask("DELETE", f"{PATH}?stream_id={stream_id}")).status_code == 204
    assert (await client.ask("DELETE", f"{PATH}?stream_id={stream_id}")).status_code == 404
    assert (await client.ask("GET", PATH)).json() == []


async def test_anothers_and_an_absent_one_look_the_same(desk: Desk, client: DeskClient) -> None:
    anothers = (await created(desk.new_client()))["stream_id"]
    for method in ("GET", "DELETE", "PATCH", "PUT"):
        answers = [
            await client.ask(method, f"{PATH}?stream_id={stream_id}")
            if method in ("GET", "DELETE")
            else await client.ask(method, PATH, {"stream_id": stream_id})
            for stream_id in (anothers, "absent")
        ]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].content == answers[1].content


async def test_who_may_only_read_changes_nothing(desk: Desk) -> None:
    reader = desk.new_client("ssf.read")
    assert (await reader.ask("GET", PATH)).status_code == 200
    for method in ("POST", "PATCH", "PUT"):
        assert (await reader.ask(method, PATH, {"stream_id": "x"})).status_code == 403
    assert (await reader.ask("DELETE", f"{PATH}?stream_id=x")).status_code == 403
    assert (await desk.new_client("eventpolling").ask("GET", PATH)).status_code == 403
    assert (await desk.ask("GET", PATH)).json()["err"] == "authentication_failed"
