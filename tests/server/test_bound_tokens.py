"""Access tokens bound to certificates, polled with: over TLS of our own, through fast lane and application."""

import json
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from restante.events import clients
from restante.events.clients import Registration
from tests.events import bank
from tests.events.keys import assertion, assertion_form, jwks
from tests.pki import TPP_DN, Pair, pki
from tests.server.serving import Served, WireAnswer
from tests.server.tls_wire import SETTINGS, TlsWire, post

FORM = "application/x-www-form-urlencoded"
POLL = b'{"returnImmediately":true}'
# A header that the fast lane does not know sends the same request to the application.
WAYS = {"fast lane": (), "application": ("X-Unknown: 1",)}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("bound"), public_url="https://localhost", **SETTINGS)
    write = served.node.database.write_now
    write(clients.add, Registration("n", "tls_client_auth", "tpp", subject_dn=TPP_DN))
    write(clients.add, Registration("n", "tls_client_auth", "two", subject_dn="CN=tpp two,O=Other TPP Ltd,C=GB"))
    write(clients.add, Registration("n", "private_key_jwt", "by-key", jwks=jwks("ec-1")))
    yield served
    served.close()


def token(served: Served, certificate: Pair, form: dict[str, str]) -> str:
    with TlsWire(served.fast_port, certificate) as wire:
        answer = wire.ask(post("/token", urlencode(form).encode(), media_type=FORM))
    assert answer.status == 200, answer.body
    return str(json.loads(answer.body)["access_token"])


def tls_token(served: Served, certificate: Pair, client_id: str) -> str:
    return token(served, certificate, {"grant_type": "client_credentials", "client_id": client_id})


def poll(served: Served, certificate: Pair | None, given: str, *lines: str) -> WireAnswer:
    with TlsWire(served.fast_port, certificate) as wire:
        return wire.ask(post("/events", POLL, f"Authorization: Bearer {given}", *lines))


@pytest.mark.parametrize("way", WAYS)
def test_with_its_certificate_a_token_counts(served: Served, way: str) -> None:
    given = tls_token(served, pki().tpp, "tpp")
    assert poll(served, pki().tpp, given, *WAYS[way]).status == 200


@pytest.mark.parametrize("way", WAYS)
def test_with_another_certificate_or_none_it_does_not(served: Served, way: str) -> None:
    given = tls_token(served, pki().tpp, "tpp")
    assert poll(served, pki().tpp, given).status == 200, "it is remembered now"
    for certificate in (pki().other_tpp, None):
        refused = poll(served, certificate, given, *WAYS[way])
        assert (refused.status, refused.body) == (401, b"")
        assert refused.header(b"www-authenticate") is not None
    forged = poll(served, pki().other_tpp, given, f"Client-Cert: {pki().tpp.header}")
    assert forged.status == 401


def test_the_fast_lane_answers_bound_tokens_over_their_connection(served: Served) -> None:
    given = tls_token(served, pki().tpp, "tpp")
    with TlsWire(served.fast_port, pki().tpp) as wire:
        request = post("/events", POLL, f"Authorization: Bearer {given}")
        assert wire.ask(request).status == 200
    before = served.node.lane.hot_requests
    with TlsWire(served.fast_port, pki().tpp) as wire:
        answers = [wire.ask(request) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
    assert served.node.lane.hot_requests == before + 3


def test_an_assertion_with_a_certificate_gives_a_bound_token(served: Served) -> None:
    form = assertion_form(assertion("by-key", "https://localhost/token"))
    given = token(served, pki().other_tpp, form)
    assert poll(served, pki().other_tpp, given).status == 200
    assert poll(served, pki().tpp, given).status == 401


def test_a_token_bound_to_nothing_counts_for_nothing_here(served: Served) -> None:
    unbound = served.node.database.write_now(bank.add_client).token
    for certificate in (pki().tpp, None):
        assert poll(served, certificate, unbound).status == 401


def test_suspended_and_rotated_clients_are_refused_at_once(served: Served) -> None:
    write = served.node.database.write_now
    given = tls_token(served, pki().other_tpp, "two")
    assert poll(served, pki().other_tpp, given).status == 200
    write(clients.suspend, "two", "me")
    served.until(lambda: served.node.client_tokens.cached_count == 0)
    assert poll(served, pki().other_tpp, given).status == 401
    write(clients.resume, "two", "me")
    again = tls_token(served, pki().other_tpp, "two")
    assert poll(served, pki().other_tpp, again).status == 200
    write(clients.rotate, "two", None, "CN=tpp two,O=Other TPP Ltd,C=GB", "me")
    served.until(lambda: served.node.client_tokens.cached_count == 0)
    assert poll(served, pki().other_tpp, again).status == 401
