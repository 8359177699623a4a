"""Discovery, status, subjects and verification over HTTP."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.events import streams
from restante.events.event_catalogue import SUPPORTED_BY_DEFAULT
from restante.events.routes_stream_control import StreamControlRoutes
from restante.events.ssf_options import SignalsOptions
from restante.events.streams import StreamRules, StreamWish
from tests.conftest import ManualClock
from tests.events.desk import BASE, Desk, DeskClient
from tests.events.test_streams import left

OPTIONS = SignalsOptions(issuer=f"{BASE}/tenant", base_url=BASE)
USER = {"format": "email", "email": "user@example.com"}


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database, StreamControlRoutes(database, OPTIONS).routes())


@pytest.fixture
def client(desk: Desk) -> DeskClient:
    return desk.new_client()


@pytest.fixture
def stream_id(database: Database, client: DeskClient) -> str:
    return database.write_now(streams.create, OPTIONS.rules, client.id, StreamWish()).public_id


@pytest.mark.parametrize("path", ["/.well-known/ssf-configuration", "/.well-known/ssf-configuration/tenant"])
async def test_the_transmitter_says_where_everything_is(desk: Desk, path: str) -> None:
    answer = await desk.ask("GET", path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "spec_version": "1_0",
        "issuer": f"{BASE}/tenant",
        "jwks_uri": f"{BASE}/jwks.json",
        "delivery_methods_supported": ["urn:ietf:rfc:8935", "urn:ietf:rfc:8936"],
        "configuration_endpoint": f"{BASE}/ssf/streams",
        "status_endpoint": f"{BASE}/ssf/status",
        "add_subject_endpoint": f"{BASE}/ssf/subjects:add",
        "remove_subject_endpoint": f"{BASE}/ssf/subjects:remove",
        "verification_endpoint": f"{BASE}/ssf/verify",
        "authorization_schemes": [{"spec_urn": "urn:ietf:rfc:6749"}, {"spec_urn": "urn:ietf:rfc:8705"}],
        "default_subjects": "ALL",
        "events_supported": list(SUPPORTED_BY_DEFAULT),
    }


async def test_who_must_name_subjects_is_told_so(database: Database) -> None:
    options = SignalsOptions(rules=StreamRules(("urn:example:a",), all_subjects=False))
    answer = await Desk(database, StreamControlRoutes(database, options).routes()).ask(
        "GET", "/.well-known/ssf-configuration"
    )
    assert answer.json()["default_subjects"] == "NONE"
    assert answer.json()["events_supported"] == ["urn:example:a"]


async def test_status_is_read_and_changed(client: DeskClient, stream_id: str) -> None:
    path = f"/ssf/status?stream_id={stream_id}"
    assert (await client.ask("GET", path)).json() == {"stream_id": stream_id, "status": "enabled"}
    wish = {"stream_id": stream_id, "status": "paused", "reason": "lunch"}
    changed = await client.ask("POST", "/ssf/status", wish)
    assert (changed.status_code, changed.json()) == (200, wish)
    assert (await client.ask("GET", path)).json() == wish
    again = await client.ask("POST", "/ssf/status", {"stream_id": stream_id, "status": "enabled"})
    assert again.json() == {"stream_id": stream_id, "status": "enabled"}


async def test_subjects_are_added_and_removed(client: DeskClient, stream_id: str) -> None:
    wish = {"stream_id": stream_id, "subject": USER}
    added = await client.ask("POST", "/ssf/subjects:add", {**wish, "verified": False})
    assert (added.status_code, added.content) == (200, b"")
    removed = await client.ask("POST", "/ssf/subjects:remove", wish)
    assert (removed.status_code, removed.content) == (204, b"")


async def test_a_subject_too_many_is_refused_in_the_frameworks_way(
    database: Database, client: DeskClient, stream_id: str
) -> None:
    options = SignalsOptions(rules=StreamRules(SUPPORTED_BY_DEFAULT, subjects_max=1))
    desk = Desk(database, StreamControlRoutes(database, options).routes())
    narrow = DeskClient(desk, client.id, client.token)
    wish = {"stream_id": stream_id, "subject": USER}
    assert (await narrow.ask("POST", "/ssf/subjects:add", wish)).status_code == 200
    for path in ("/ssf/subjects:add", "/ssf/subjects:remove"):
        other = {"stream_id": stream_id, "subject": {"format": "email", "email": "other@example.com"}}
        refused = await narrow.ask("POST", path, other)
        assert (refused.status_code, refused.json()["err"]) == (403, "access_denied")
        assert refused.json()["description"].startswith("subject: the stream has named 1 subjects")
    assert (await narrow.ask("POST", "/ssf/subjects:remove", wish)).status_code == 204


async def test_verification_is_sent_and_not_too_often(
    database: Database, client: DeskClient, stream_id: str, clock: ManualClock
) -> None:
    wish = {"stream_id": stream_id, "state": "VGhpcw=="}
    assert (await client.ask("POST", "/ssf/verify", wish)).status_code == 204
    (event,) = left(database, client.id)
    assert event["events"] == {"https://schemas.openid.net/secevent/ssf/event-type/verification": {"state": "VGhpcw=="}}
    refused = await client.ask("POST", "/ssf/verify", wish)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    clock.advance(60)
    assert (await client.ask("POST", "/ssf/verify", {"stream_id": stream_id})).status_code == 204


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "no stream": ("/ssf/status", {"status": "paused"}, "stream_id"),
    "no status": ("/ssf/status", {}, "status"),
    "an unknown status": ("/ssf/status", {"status": "gone"}, "status"),
    "a long reason": ("/ssf/status", {"status": "paused", "reason": "a" * 257}, "reason"),
    "no subject": ("/ssf/subjects:add", {}, "subject"),
    "a subject without a format": ("/ssf/subjects:add", {"subject": {}}, "subject.format"),
    "a subject that is none": ("/ssf/subjects:remove", {"subject": "user"}, "subject"),
    "a subject without what it needs": ("/ssf/subjects:remove", {"subject": {"format": "email"}}, "subject.email"),
    "a word for yes": ("/ssf/subjects:add", {"subject": USER, "verified": "yes"}, "verified"),
    "a state that is none": ("/ssf/verify", {"state": 1}, "state"),
    "a state too long": ("/ssf/verify", {"state": "a" * 1025}, "state"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_input_is_named(client: DeskClient, stream_id: str, name: str) -> None:
    path, body, field = BAD[name]
    whole = body if field == "stream_id" else {"stream_id": stream_id, **body}
    answer = await client.ask("POST", path, whole)
    assert (answer.status_code, answer.json()["err"]) == (400, "invalid_request")
    assert answer.json()["description"].startswith(field)


async def test_a_status_is_that_of_a_named_stream(client: DeskClient) -> None:
    assert (await client.ask("GET", "/ssf/status")).status_code == 400


async def test_anothers_and_an_absent_one_look_the_same(database: Database, desk: Desk, client: DeskClient) -> None:
    anothers = database.write_now(streams.create, OPTIONS.rules, desk.new_client().id, StreamWish()).public_id
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/ssf/status", {"status": "paused"}),
        ("/ssf/subjects:add", {"subject": USER}),
        ("/ssf/subjects:remove", {"subject": USER}),
        ("/ssf/verify", {}),
    ]
    for path, body in asked:
        answers = [await client.ask("POST", path, {"stream_id": id_, **body}) for id_ in (anothers, "absent")]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].content == answers[1].content
