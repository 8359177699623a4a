"""Discovery, status, subjects and verification over HTTP."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.events.publishing.catalogue import SUPPORTED_BY_DEFAULT
from restante.events.ssf import streams
from restante.events.ssf.routes_control import StreamControlRoutes
from restante.events.ssf.streams import StreamRequest
from tests.conftest import ManualClock
from tests.events.client_app import BASE, AppClient, ClientApp
from tests.events.default_options import shared_signals_options, stream_rules
from tests.events.ssf.test_streams import open_events

OPTIONS = shared_signals_options(issuer=f"{BASE}/tenant", base_url=BASE)
USER = {"format": "email", "email": "user@example.com"}


@pytest.fixture
def app(database: Database) -> ClientApp:
    return ClientApp(database, StreamControlRoutes(database, OPTIONS).routes())


@pytest.fixture
def stream_id(database: Database, client: AppClient) -> str:
    return database.write_now(streams.create, OPTIONS.rules, client.id, StreamRequest()).public_id


@pytest.mark.parametrize("path", ["/.well-known/ssf-configuration", "/.well-known/ssf-configuration/tenant"])
async def test_transmitter_configuration(app: ClientApp, path: str) -> None:
    response = await app.request("GET", path)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "spec_version": "1_0",
        "issuer": f"{BASE}/tenant",
        "jwks_uri": f"{BASE}/jwks.json?alg=RS256",
        "delivery_methods_supported": ["urn:ietf:rfc:8935", "urn:ietf:rfc:8936"],
        "configuration_endpoint": f"{BASE}/ssf/streams",
        "status_endpoint": f"{BASE}/ssf/status",
        "add_subject_endpoint": f"{BASE}/ssf/subjects:add",
        "remove_subject_endpoint": f"{BASE}/ssf/subjects:remove",
        "verification_endpoint": f"{BASE}/ssf/verify",
        "authorization_schemes": [{"spec_urn": "urn:ietf:rfc:6749"}],
        "default_subjects": "ALL",
        "events_supported": list(SUPPORTED_BY_DEFAULT),
    }


async def test_configuration_shows_default_subjects_and_types(database: Database) -> None:
    options = shared_signals_options(rules=stream_rules(events_supported=("urn:example:a",), all_subjects=False))
    response = await ClientApp(database, StreamControlRoutes(database, options).routes()).request(
        "GET", "/.well-known/ssf-configuration"
    )
    assert response.json()["default_subjects"] == "NONE"
    assert response.json()["events_supported"] == ["urn:example:a"]


async def test_configuration_names_bound_tokens_where_the_server_sees_certificates(database: Database) -> None:
    options = shared_signals_options(has_certificates=True)
    app = ClientApp(database, StreamControlRoutes(database, options).routes())
    schemes = (await app.request("GET", "/.well-known/ssf-configuration")).json()["authorization_schemes"]
    assert schemes == [{"spec_urn": "urn:ietf:rfc:6749"}, {"spec_urn": "urn:ietf:rfc:8705"}]


async def test_status_is_read_and_changed(client: AppClient, stream_id: str) -> None:
    path = f"/ssf/status?stream_id={stream_id}"
    assert (await client.request("GET", path)).json() == {"stream_id": stream_id, "status": "enabled"}
    request_body = {"stream_id": stream_id, "status": "paused", "reason": "lunch"}
    changed = await client.request("POST", "/ssf/status", request_body)
    assert (changed.status_code, changed.json()) == (200, request_body)
    assert (await client.request("GET", path)).json() == request_body
    again = await client.request("POST", "/ssf/status", {"stream_id": stream_id, "status": "enabled"})
    assert again.json() == {"stream_id": stream_id, "status": "enabled"}


async def test_subjects_are_added_and_removed(client: AppClient, stream_id: str) -> None:
    request_body = {"stream_id": stream_id, "subject": USER}
    added = await client.request("POST", "/ssf/subjects:add", {**request_body, "verified": False})
    assert (added.status_code, added.content) == (200, b"")
    removed = await client.request("POST", "/ssf/subjects:remove", request_body)
    assert (removed.status_code, removed.content) == (204, b"")


async def test_too_many_subjects_are_refused(database: Database, client: AppClient, stream_id: str) -> None:
    options = shared_signals_options(rules=stream_rules(subjects_max=1))
    app = ClientApp(database, StreamControlRoutes(database, options).routes())
    limited = AppClient(app, client.id, client.token)
    request_body = {"stream_id": stream_id, "subject": USER}
    assert (await limited.request("POST", "/ssf/subjects:add", request_body)).status_code == 200
    for path in ("/ssf/subjects:add", "/ssf/subjects:remove"):
        other = {"stream_id": stream_id, "subject": {"format": "email", "email": "other@example.com"}}
        refused = await limited.request("POST", path, other)
        assert (refused.status_code, refused.json()["err"]) == (403, "access_denied")
        assert refused.json()["description"].startswith("subject: the stream already has 1 subjects")
    assert (await limited.request("POST", "/ssf/subjects:remove", request_body)).status_code == 204


async def test_verification_is_published_and_rate_limited(
    database: Database, client: AppClient, stream_id: str, clock: ManualClock
) -> None:
    request_body = {"stream_id": stream_id, "state": "VGhpcw=="}
    assert (await client.request("POST", "/ssf/verify", request_body)).status_code == 204
    (event,) = open_events(database, client.id)
    assert event["events"] == {"https://schemas.openid.net/secevent/ssf/event-type/verification": {"state": "VGhpcw=="}}
    refused = await client.request("POST", "/ssf/verify", request_body)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    clock.advance(60)
    assert (await client.request("POST", "/ssf/verify", {"stream_id": stream_id})).status_code == 204


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
async def test_invalid_input_is_named(client: AppClient, stream_id: str, name: str) -> None:
    path, body, field = BAD[name]
    whole = body if field == "stream_id" else {"stream_id": stream_id, **body}
    response = await client.request("POST", path, whole)
    assert (response.status_code, response.json()["err"]) == (400, "invalid_request")
    assert response.json()["description"].startswith(field)


async def test_status_requires_a_stream_id(client: AppClient) -> None:
    assert (await client.request("GET", "/ssf/status")).status_code == 400


async def test_missing_and_foreign_stream_get_the_same_404(
    database: Database, app: ClientApp, client: AppClient
) -> None:
    foreign = database.write_now(streams.create, OPTIONS.rules, app.new_client().id, StreamRequest()).public_id
    requests: list[tuple[str, dict[str, Any]]] = [
        ("/ssf/status", {"status": "paused"}),
        ("/ssf/subjects:add", {"subject": USER}),
        ("/ssf/subjects:remove", {"subject": USER}),
        ("/ssf/verify", {}),
    ]
    for path, body in requests:
        responses = [await client.request("POST", path, {"stream_id": id_, **body}) for id_ in (foreign, "absent")]
        assert [response.status_code for response in responses] == [404, 404]
        assert responses[0].content == responses[1].content
