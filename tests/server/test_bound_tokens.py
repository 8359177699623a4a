"""Polls with access tokens bound to certificates, over the server's own TLS, in the fast lane and the application."""

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration
from tests.events import inbox_fixture
from tests.events.client_keys import assertion, assertion_form, jwks
from tests.pki import TPP_DN, CertificateFiles, pki
from tests.server.live_server import LiveServer, RawResponse
from tests.server.tls_connection import SETTINGS, TlsConnection, post

FORM = "application/x-www-form-urlencoded"
POLL = b'{"returnImmediately":true}'
# A header that the fast lane does not know sends the same request to the application.
WAYS = {"fast lane": (), "application": ("X-Unknown: 1",)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path_factory.mktemp("bound"), public_url="https://localhost", **SETTINGS)
    write = server.node.database.write_now
    write(clients.add, ClientRegistration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN))
    write(clients.add, ClientRegistration("n", "tls_client_auth", "two", subject_dn="CN=tpp two,O=Other TPP Ltd,C=GB"))
    write(clients.add, ClientRegistration("n", "private_key_jwt", "by-key", jwks=jwks("ec-1")))
    yield server
    server.close()


def token(server: LiveServer, certificate: CertificateFiles, form: dict[str, str]) -> str:
    with TlsConnection(server.fast_port, certificate) as wire:
        response = wire.request(post("/token", urlencode(form).encode(), media_type=FORM))
    assert response.status == 200, response.body
    return str(json.loads(response.body)["access_token"])


def tls_token(server: LiveServer, certificate: CertificateFiles, client_id: str) -> str:
    return token(server, certificate, {"grant_type": "client_credentials", "client_id": client_id})


def poll(server: LiveServer, certificate: CertificateFiles | None, access_token: str, *lines: str) -> RawResponse:
    with TlsConnection(server.fast_port, certificate) as wire:
        return wire.request(post("/events", POLL, f"Authorization: Bearer {access_token}", *lines))


@pytest.mark.parametrize("way", WAYS)
def test_bound_token_with_its_certificate_is_accepted(server: LiveServer, way: str) -> None:
    access_token = tls_token(server, pki().tpp, "tpp")
    assert poll(server, pki().tpp, access_token, *WAYS[way]).status == 200


@pytest.mark.parametrize("way", WAYS)
def test_bound_token_with_other_certificate_is_refused(server: LiveServer, way: str) -> None:
    access_token = tls_token(server, pki().tpp, "tpp")
    assert poll(server, pki().tpp, access_token).status == 200, "the token is cached now"
    for certificate in (pki().other_tpp, None):
        refused = poll(server, certificate, access_token, *WAYS[way])
        assert (refused.status, refused.body) == (401, b"")
        assert refused.header(b"www-authenticate") is not None
    forged = poll(server, pki().other_tpp, access_token, f"Client-Cert: {pki().tpp.header}")
    assert forged.status == 401


def test_fast_lane_accepts_bound_token_on_its_connection(server: LiveServer) -> None:
    access_token = tls_token(server, pki().tpp, "tpp")
    with TlsConnection(server.fast_port, pki().tpp) as wire:
        request = post("/events", POLL, f"Authorization: Bearer {access_token}")
        assert wire.request(request).status == 200
    before = server.node.lane.fast_requests
    with TlsConnection(server.fast_port, pki().tpp) as wire:
        responses = [wire.request(request) for _ in range(3)]
    assert [response.status for response in responses] == [200] * 3
    assert server.node.lane.fast_requests == before + 3


def test_assertion_with_certificate_yields_bound_token(server: LiveServer) -> None:
    form = assertion_form(assertion("by-key", "https://localhost"))
    access_token = token(server, pki().other_tpp, form)
    assert poll(server, pki().other_tpp, access_token).status == 200
    assert poll(server, pki().tpp, access_token).status == 401


def test_unbound_token_is_refused(server: LiveServer) -> None:
    unbound = server.node.database.write_now(inbox_fixture.add_client).token
    for certificate in (pki().tpp, None):
        assert poll(server, certificate, unbound).status == 401


def test_suspended_and_rotated_clients_are_refused_at_once(server: LiveServer) -> None:
    write = server.node.database.write_now
    access_token = tls_token(server, pki().other_tpp, "two")
    assert poll(server, pki().other_tpp, access_token).status == 200
    write(clients.suspend, "two", "me")
    server.wait_until(lambda: server.node.identity.client_tokens.cached_count == 0)
    assert poll(server, pki().other_tpp, access_token).status == 401
    write(clients.resume, "two", "me")
    again = tls_token(server, pki().other_tpp, "two")
    assert poll(server, pki().other_tpp, again).status == 200
    write(clients.rotate, "two", None, "CN=tpp two,O=Other TPP Ltd,C=GB", "me")
    server.wait_until(lambda: server.node.identity.client_tokens.cached_count == 0)
    assert poll(server, pki().other_tpp, again).status == 401
