"""A client signs in to the portal with its access token, sees its own backlog, and sends itself a test event."""

from dataclasses import replace

import pytest

from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.clients import clients
from restante.events.clients.refusals import Refusals
from restante.events.portal.component import COOKIE, TEST_EVENTS_PER_MINUTE, TOKEN_CHARACTERS_MAX
from restante.events.portal.content import PortalFacts
from restante.events.portal.samples import TEST_EVENT_TYPE
from restante.events.publishing import event_audit, listing
from restante.events.publishing.listing import EventFilter, EventView
from restante.identity.clients.client_certificates import from_der
from restante.identity.clients.refused_token import ClientRefusal
from restante.server.config.options import portal_facts
from restante.server.config.settings import Settings
from tests.conftest import ManualClock
from tests.events import publish_fixture
from tests.events.portal.portal_app import PortalApp
from tests.events.push_fixture import client_id_of
from tests.pki import pki

SECURE_COOKIE = f"__Host-{COOKIE}"


@pytest.fixture
def facts() -> PortalFacts:
    return portal_facts(Settings(bank_name="Example & Sons"))


@pytest.fixture
def app(database: Database, facts: PortalFacts) -> PortalApp:
    return PortalApp(database, facts)


def events_of(database: Database, client: int) -> list[EventView]:
    filters = EventFilter(client_id=client_id_of(database, client))
    return database.read_now(listing.list_page, filters, PageRequest(100, 0)).items


async def test_page_shows_the_banks_name_and_links_the_client_area(app: PortalApp) -> None:
    text = (await app.request("GET", "/developer")).text
    assert "Example &amp; Sons" in text
    assert 'href="/developer/client"' in text


async def test_client_area_without_a_session_shows_the_sign_in_form(app: PortalApp) -> None:
    response = await app.request("GET", "/developer/client")
    assert response.status_code == 200
    assert 'action="/developer/session"' in response.text


async def test_client_signs_in_and_out(app: PortalApp, database: Database) -> None:
    client, token = app.new_client()
    response = await app.sign_in(f" {token} ")
    assert (response.status_code, response.headers["location"]) == (303, "/developer/client")
    cookie = response.headers["set-cookie"]
    assert cookie.startswith(f"{SECURE_COOKIE}={token}; Path=/; Max-Age=")
    assert cookie.endswith("; HttpOnly; SameSite=Lax; Secure")
    page = await app.request("GET", "/developer/client")
    assert f"Client {client_id_of(database, client)}" in page.text
    assert token not in page.text
    assert (await app.post_form("/developer/sign-out")).headers["location"] == "/developer"
    assert 'action="/developer/session"' in (await app.request("GET", "/developer/client")).text


async def test_session_lasts_as_long_as_the_token(database: Database, facts: PortalFacts, clock: ManualClock) -> None:
    app = PortalApp(database, facts, lambda: clock.now_ms / 1000)
    _, token = app.new_client(seconds=90)
    assert "Max-Age=90;" in (await app.sign_in(token)).headers["set-cookie"]
    assert "ends in about 2 minutes" in (await app.request("GET", "/developer/client")).text


@pytest.mark.parametrize("token", ["", "et_unknown", "x" * (TOKEN_CHARACTERS_MAX + 1), "a.b.c"])
async def test_refused_token_shows_the_form_again(app: PortalApp, token: str) -> None:
    response = await app.sign_in(token)
    assert response.status_code == 401
    assert "set-cookie" not in response.headers
    assert 'role="alert"' in response.text
    assert token == "" or token not in response.text


async def test_ended_token_ends_the_session(app: PortalApp, database: Database) -> None:
    client, token = app.new_client()
    await app.sign_in(token)
    client_id = client_id_of(database, client)
    database.write_now(clients.suspend, client_id, "me")
    fresh = PortalApp(database, portal_facts(Settings()))
    fresh.cookies = app.cookies
    assert 'action="/developer/session"' in (await fresh.request("GET", "/developer/client")).text
    refused = await fresh.request("POST", "/developer/test-event", data={"form_token": "x"})
    assert refused.status_code == 401


async def test_bound_token_needs_its_certificate(app: PortalApp) -> None:
    certificate = from_der(pki().tpp.der)
    assert certificate is not None
    _, token = app.new_client(certificate.thumbprint)
    assert (await app.sign_in(token)).status_code == 401
    app.certificate = pki().tpp
    assert (await app.sign_in(token)).status_code == 303
    app.certificate = pki().other_tpp
    assert 'action="/developer/session"' in (await app.request("GET", "/developer/client")).text


async def test_test_event_reaches_this_client_only(app: PortalApp, database: Database) -> None:
    other, _ = app.new_client()
    client, token = app.new_client()
    await app.sign_in(token)
    response = await app.post_form("/developer/test-event")
    assert response.status_code == 303
    (event,) = events_of(database, client)
    assert response.headers["location"] == f"/developer/client?sent={event.jti}"
    assert event.event_types == [TEST_EVENT_TYPE]
    assert events_of(database, other) == []
    page = (await app.request("GET", response.headers["location"])).text
    assert f"The test event {event.jti} is in your inbox" in page
    assert TEST_EVENT_TYPE in page
    (action,) = database.read_now(event_audit.list_page, client_id_of(database, client), PageRequest(1, 0)).items
    assert (action.event, action.actor) == ("event.published", f"client:{client_id_of(database, client)}")


async def test_events_of_other_clients_are_not_shown(app: PortalApp, database: Database) -> None:
    other, _ = app.new_client()
    jti = publish_fixture.publish(database, client_id_of(database, other))[0]
    _, token = app.new_client()
    await app.sign_in(token)
    page = (await app.request("GET", f"/developer/client?sent={jti}")).text
    assert jti not in page
    assert "No events yet" in page


async def test_client_with_a_stream_is_shown_how_to_verify_it(app: PortalApp, database: Database) -> None:
    client, token = app.new_client()
    await app.sign_in(token)
    before = (await app.request("GET", "/developer/client")).text
    publish_fixture.add_stream(database, client, "[]")
    page = (await app.request("GET", "/developer/client")).text
    assert "/ssf/verify" in page
    assert "/ssf/verify" not in before
    assert (await app.post_form("/developer/test-event")).status_code == 409
    assert events_of(database, client) == []


async def test_test_events_are_limited(app: PortalApp, database: Database) -> None:
    client, token = app.new_client()
    await app.sign_in(token)
    statuses = [(await app.post_form("/developer/test-event")).status_code for _ in range(TEST_EVENTS_PER_MINUTE + 1)]
    assert statuses == [303] * TEST_EVENTS_PER_MINUTE + [429]
    assert len(events_of(database, client)) == TEST_EVENTS_PER_MINUTE


async def test_test_events_can_be_turned_off(database: Database, facts: PortalFacts) -> None:
    app = PortalApp(database, replace(facts, has_test_events=False))
    client, token = app.new_client()
    await app.sign_in(token)
    assert "/developer/test-event" not in (await app.request("GET", "/developer/client")).text
    refused = await app.post_form("/developer/test-event")
    assert (refused.status_code, events_of(database, client)) == (403, [])


@pytest.mark.parametrize("path", ["/developer/test-event", "/developer/sign-out"])
async def test_form_of_another_site_or_session_is_refused(app: PortalApp, database: Database, path: str) -> None:
    client, token = app.new_client()
    await app.sign_in(token)
    foreign = await app.post_form(path, headers={"origin": "https://evil.example"})
    assert foreign.status_code == 403
    forged = await app.request("POST", path, data={"form_token": "guessed"})
    assert forged.status_code == 403
    assert events_of(database, client) == []


async def test_sign_in_from_another_site_is_refused(app: PortalApp) -> None:
    _, token = app.new_client()
    assert (await app.sign_in(token, headers={"origin": "https://evil.example"})).status_code == 403


async def test_refusals_are_shown_without_their_details(app: PortalApp, database: Database) -> None:
    client, token = app.new_client()
    refusals = Refusals(database)
    refusals.record_token(
        ClientRefusal(client_id_of(database, client), "token_scope", "only for operators", "192.0.2.7")
    )
    await refusals.write()
    await app.sign_in(token)
    page = (await app.request("GET", "/developer/client")).text
    assert "token_scope" in page
    assert "only for operators" not in page
    assert "192.0.2.7" not in page


async def test_body_that_is_no_form_is_refused(app: PortalApp) -> None:
    response = await app.request("POST", "/developer/session", json={"access_token": "x"})
    assert response.status_code == 415
