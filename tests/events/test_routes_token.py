import time
from typing import Any

import pytest

from restante.core.errors import NotAuthenticated
from restante.database.database import Database
from restante.events import clients
from restante.events.client_auth import Proven
from restante.events.oauth_wire import InvalidClient
from restante.events.routes_token import BODY_BYTES_MAX, grant
from restante.identity.client_certificates import from_der
from tests.conftest import ManualClock
from tests.events.keys import assertion, assertion_form
from tests.events.token_desk import (
    GRANT,
    PROXY,
    TOKEN_URL,
    TokenDesk,
    add_by_certificate,
    add_by_key,
    add_by_secret,
    basic,
)
from tests.pki import pki


@pytest.fixture
def clock() -> ManualClock:
    """Assertions are of the present, and so must be the database."""
    clock = ManualClock()
    clock.now_ms = int(time.time() * 1000)
    return clock


MUTUAL: dict[str, Any] = {"is_development": False, "has_certificates": True, "is_binding_required": True}


async def test_a_token_for_a_secret(database: Database) -> None:
    desk = TokenDesk(database, token_seconds=77)
    answer = await desk.ask(GRANT, headers=add_by_secret(database, scope="eventpolling ssf.read"))
    assert answer.status_code == 200
    body = answer.json()
    caller = await desk.tokens.verify(body.pop("access_token"), None)
    assert body == {"token_type": "Bearer", "expires_in": 77, "scope": "eventpolling ssf.read"}
    assert (caller.client_id, caller.scopes, caller.thumbprint) == (
        "tpp",
        frozenset(["eventpolling", "ssf.read"]),
        None,
    )
    assert (answer.headers["cache-control"], answer.headers["pragma"]) == ("no-store", "no-cache")
    assert desk.totals.requests["granted"] == 1


async def test_a_token_is_bound_to_the_certificate_it_was_asked_with(database: Database) -> None:
    add_by_key(database)
    desk = TokenDesk(database)
    form = assertion_form(assertion("tpp", TOKEN_URL))
    token = (await desk.ask(form, certificate=pki().tpp)).json()["access_token"]
    certificate = from_der(pki().tpp.der)
    assert certificate is not None
    assert (await desk.tokens.verify(token, certificate.thumbprint)).thumbprint == certificate.thumbprint
    with pytest.raises(NotAuthenticated):
        await desk.tokens.verify(token, None)


async def test_a_token_for_a_certificate(database: Database) -> None:
    add_by_certificate(database)
    desk = TokenDesk(database, **MUTUAL)
    assert (await desk.ask({**GRANT, "client_id": "tpp"}, certificate=pki().tpp)).status_code == 200
    for other in (None, pki().other_tpp, pki().expired):
        refused = await desk.ask({**GRANT, "client_id": "tpp"}, certificate=other)
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
        assert "www-authenticate" not in refused.headers


async def test_where_tokens_must_be_bound_a_certificate_is_required(database: Database) -> None:
    add_by_key(database)
    desk = TokenDesk(database, **MUTUAL)
    refused = await desk.ask(assertion_form(assertion("tpp", TOKEN_URL)))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert "certificate is required" in refused.json()["error_description"]
    assert (await desk.ask(assertion_form(assertion("tpp", TOKEN_URL)), certificate=pki().expired)).status_code == 401
    assert (await desk.ask(assertion_form(assertion("tpp", TOKEN_URL)), certificate=pki().tpp)).status_code == 200


async def test_an_assertion_counts_once(database: Database) -> None:
    add_by_key(database)
    desk = TokenDesk(database)
    form = assertion_form(assertion("tpp", TOKEN_URL))
    assert (await desk.ask(form)).status_code == 200
    replayed = await desk.ask(form)
    assert (replayed.status_code, replayed.json()["error"]) == (401, "invalid_client")
    assert "used before" in replayed.json()["error_description"]
    # Also by another process, or after a restart.
    assert (await TokenDesk(database).ask(form)).status_code == 401


async def test_scope_within_the_clients(database: Database) -> None:
    desk, header = TokenDesk(database), add_by_secret(database, scope="eventpolling ssf.read")
    for scope, status in {
        "eventpolling": 200,
        "ssf.read eventpolling": 200,
        "ssf.manage": 400,
        "eventpolling other": 400,
        " ": 400,
    }.items():
        answer = await desk.ask({**GRANT, "scope": scope}, headers=header)
        assert answer.status_code == status, scope
        if status == 400:
            assert answer.json()["error"] == "invalid_scope"
    assert (await desk.ask({**GRANT, "scope": "eventpolling"}, headers=header)).json()["scope"] == "eventpolling"


FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("body", "headers", "status", "error"),
    [
        (b"", FORM, 400, "invalid_request"),
        (b"grant_type=", FORM, 400, "invalid_request"),
        (b"grant_type=password", FORM, 400, "unsupported_grant_type"),
        (b"grant_type=authorization_code&code=x", FORM, 400, "unsupported_grant_type"),
        (b"grant_type=client_credentials&grant_type=client_credentials", FORM, 400, "invalid_request"),
        (b"grant_type=client_credentials&scope=a&scope=b", FORM, 400, "invalid_request"),
        (b"nonsense", FORM, 400, "invalid_request"),
        (b"grant_type=%ff", FORM, 400, "invalid_request"),
        (b"grant_type=\xff", FORM, 400, "invalid_request"),
        (b"&".join(b"a%d=b" % n for n in range(40)), FORM, 400, "invalid_request"),
        (b'{"grant_type":"client_credentials"}', {"content-type": "application/json"}, 400, "invalid_request"),
        (b"grant_type=client_credentials", {}, 400, "invalid_request"),
        (b"a=" + b"b" * BODY_BYTES_MAX, FORM, 413, "invalid_request"),
        (b"grant_type=client_credentials", FORM, 401, "invalid_client"),
        (b"grant_type=client_credentials", {**FORM, **basic("tpp", "x")}, 401, "invalid_client"),
    ],
)
async def test_what_is_not_a_token_request(
    database: Database, body: bytes, headers: dict[str, str], status: int, error: str
) -> None:
    desk = TokenDesk(database)
    answer = await desk.ask(body, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.headers["cache-control"] == "no-store"
    assert ("www-authenticate" in answer.headers) == ("authorization" in headers)
    assert desk.totals.requests[error] == 1


async def test_a_content_type_with_parameters(database: Database) -> None:
    header = add_by_secret(database)
    typed = {**header, "content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"}
    assert (await TokenDesk(database).ask(b"grant_type=client_credentials&x=", headers=typed)).status_code == 200


async def test_other_methods_and_a_wrong_host(database: Database) -> None:
    desk = TokenDesk(database)
    answer = await desk.ask(GRANT, method="PUT")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert (await desk.ask(GRANT, headers={"host": "a b"})).json()["error"] == "invalid_request"


async def test_in_plain_http_beyond_this_machine_nothing_is_given(database: Database) -> None:
    add_by_key(database)
    desk = TokenDesk(database, is_development=False, is_protected=False, public_url="https://bank.example")
    form = assertion_form(assertion("tpp", TOKEN_URL))
    refused = await desk.ask(form, base="http://bank.example", address="192.0.2.1")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    assert "plain HTTP" in refused.json()["error_description"]
    # A trusted proxy has spoken TLS with the client.
    assert (await desk.ask(form, base="http://bank.example", address=PROXY)).status_code == 200


async def test_a_proxy_says_which_certificate(database: Database) -> None:
    add_by_certificate(database)
    desk, form = TokenDesk(database, **MUTUAL), {**GRANT, "client_id": "tpp"}
    said = {"client-cert": pki().tpp.header}
    assert (await desk.ask(form, headers=said, address=PROXY)).status_code == 200
    assert (await desk.ask(form, headers=said, address="192.0.2.1")).status_code == 401
    assert (await desk.ask(form, headers=said, address="192.0.2.2", certificate=pki().other_tpp)).status_code == 401


async def test_who_fails_too_often_is_not_listened_to(database: Database) -> None:
    header = add_by_secret(database)
    desk = TokenDesk(database, failures_per_minute=1)
    assert (await desk.ask(GRANT, headers=basic("tpp", "wrong"))).status_code == 401
    refused = await desk.ask(GRANT, headers=header)
    assert (refused.status_code, desk.totals.requests["rate_limited"]) == (429, 1)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    # Others are, from other addresses or with a certificate of their own.
    assert (await desk.ask(GRANT, headers=header, address="192.0.2.1")).status_code == 200
    assert (await desk.ask(GRANT, headers=header, certificate=pki().tpp)).status_code == 200


async def test_success_and_wrong_requests_do_not_count_as_failures(database: Database) -> None:
    header = add_by_secret(database)
    desk = TokenDesk(database, failures_per_minute=1)
    for _ in range(5):
        assert (await desk.ask(GRANT, headers=header)).status_code == 200
        assert (await desk.ask(b"", headers=header)).status_code == 400


async def test_what_changed_since_the_proof_counts(database: Database) -> None:
    """The client was rotated or suspended between the look and the grant."""
    header = add_by_secret(database)
    desk = TokenDesk(database)
    assert (await desk.ask(GRANT, headers=header)).status_code == 200
    client = database.read_now(clients.get, "tpp")
    database.write_now(clients.rotate, "tpp", None, None, "me")
    with pytest.raises(InvalidClient):
        database.write_now(grant, Proven(client), "eventpolling", None, 60)
    proven = Proven(database.read_now(clients.get, "tpp"))
    database.write_now(clients.suspend, "tpp", "me")
    with pytest.raises(InvalidClient):
        database.write_now(grant, proven, "eventpolling", None, 60)


async def test_discovery(database: Database) -> None:
    desk = TokenDesk(database, public_url="https://bank.example", mtls_url="https://mtls.bank.example", **MUTUAL)
    path = "/.well-known/oauth-authorization-server"
    answer = await desk.ask(b"", method="GET", path=path, base="https://elsewhere.example")
    assert answer.json() == {
        "issuer": "https://bank.example",
        "token_endpoint": "https://bank.example/token",
        "jwks_uri": "https://bank.example/jwks.json",
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
        "scopes_supported": ["eventpolling", "ssf.read", "ssf.manage"],
        "token_endpoint_auth_methods_supported": ["tls_client_auth", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["PS256", "ES256", "EdDSA", "RS256"],
        "tls_client_certificate_bound_access_tokens": True,
        "mtls_endpoint_aliases": {
            "token_endpoint": "https://mtls.bank.example/token",
            "events_endpoint": "https://mtls.bank.example/open-banking/v4.0/events",
        },
        "events_endpoint": "https://bank.example/open-banking/v4.0/events",
        "events_max": 100,
        "events_wait_seconds": 30.0,
    }
    development = TokenDesk(database)
    found = (await development.ask(b"", method="GET", path=path, base="http://127.0.0.1:8080")).json()
    assert found["issuer"] == "http://127.0.0.1:8080"
    assert "client_secret_basic" in found["token_endpoint_auth_methods_supported"]
