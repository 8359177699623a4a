import time
from typing import Any

import pytest

from restante.core.errors import NotAuthenticated
from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.authentication.client_auth import AuthenticatedClient
from restante.events.clients.authentication.oauth_errors import InvalidClient
from restante.events.clients.authentication.routes_token import BODY_BYTES_MAX, issue_token
from restante.identity.clients.client_certificates import from_der
from tests.conftest import ManualClock
from tests.events.client_keys import assertion, assertion_form
from tests.events.token_app import (
    GRANT,
    PROXY,
    TOKEN_URL,
    TokenApp,
    add_by_certificate,
    add_by_key,
    add_by_secret,
    basic,
)
from tests.pki import pki


@pytest.fixture
def clock() -> ManualClock:
    """The database clock shows the present, because assertions are made with it."""
    clock = ManualClock()
    clock.now_ms = int(time.time() * 1000)
    return clock


MUTUAL: dict[str, Any] = {"is_development": False, "has_certificates": True, "is_binding_required": True}


async def test_client_with_secret_gets_a_token(database: Database) -> None:
    app = TokenApp(database, token_seconds=77)
    response = await app.request(GRANT, headers=add_by_secret(database, scope="eventpolling ssf.read"))
    assert response.status_code == 200
    body = response.json()
    caller = await app.tokens.verify(body.pop("access_token"), None)
    assert body == {"token_type": "Bearer", "expires_in": 77, "scope": "eventpolling ssf.read"}
    assert (caller.client_id, caller.scopes, caller.thumbprint) == (
        "tpp",
        frozenset(["eventpolling", "ssf.read"]),
        None,
    )
    assert (response.headers["cache-control"], response.headers["pragma"]) == ("no-store", "no-cache")
    assert app.counters.requests["granted"] == 1


async def test_token_is_bound_to_the_certificate_of_its_request(database: Database) -> None:
    add_by_key(database)
    app = TokenApp(database)
    form = assertion_form(assertion("tpp", TOKEN_URL))
    token = (await app.request(form, certificate=pki().tpp)).json()["access_token"]
    certificate = from_der(pki().tpp.der)
    assert certificate is not None
    assert (await app.tokens.verify(token, certificate.thumbprint)).thumbprint == certificate.thumbprint
    with pytest.raises(NotAuthenticated):
        await app.tokens.verify(token, None)


async def test_client_with_certificate_gets_a_token(database: Database) -> None:
    add_by_certificate(database)
    app = TokenApp(database, **MUTUAL)
    assert (await app.request({**GRANT, "client_id": "tpp"}, certificate=pki().tpp)).status_code == 200
    for other in (None, pki().other_tpp, pki().expired):
        refused = await app.request({**GRANT, "client_id": "tpp"}, certificate=other)
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
        assert "www-authenticate" not in refused.headers


async def test_bound_tokens_require_a_certificate(database: Database) -> None:
    add_by_key(database)
    app = TokenApp(database, **MUTUAL)
    refused = await app.request(assertion_form(assertion("tpp", TOKEN_URL)))
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert "certificate is required" in refused.json()["error_description"]
    assert (
        await app.request(assertion_form(assertion("tpp", TOKEN_URL)), certificate=pki().expired)
    ).status_code == 401
    assert (await app.request(assertion_form(assertion("tpp", TOKEN_URL)), certificate=pki().tpp)).status_code == 200


async def test_assertion_is_valid_once(database: Database) -> None:
    add_by_key(database)
    app = TokenApp(database)
    form = assertion_form(assertion("tpp", TOKEN_URL))
    assert (await app.request(form)).status_code == 200
    replayed = await app.request(form)
    assert (replayed.status_code, replayed.json()["error"]) == (401, "invalid_client")
    assert "used before" in replayed.json()["error_description"]
    # Another process refuses it too.
    assert (await TokenApp(database).request(form)).status_code == 401


async def test_scope_is_limited_to_the_clients_scopes(database: Database) -> None:
    app, header = TokenApp(database), add_by_secret(database, scope="eventpolling ssf.read")
    for scope, status in {
        "eventpolling": 200,
        "ssf.read eventpolling": 200,
        "ssf.manage": 400,
        "eventpolling other": 400,
        " ": 400,
    }.items():
        response = await app.request({**GRANT, "scope": scope}, headers=header)
        assert response.status_code == status, scope
        if status == 400:
            assert response.json()["error"] == "invalid_scope"
    assert (await app.request({**GRANT, "scope": "eventpolling"}, headers=header)).json()["scope"] == "eventpolling"


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
async def test_invalid_token_request_is_refused(
    database: Database, body: bytes, headers: dict[str, str], status: int, error: str
) -> None:
    app = TokenApp(database)
    response = await app.request(body, headers=headers)
    assert (response.status_code, response.json()["error"]) == (status, error)
    assert response.headers["cache-control"] == "no-store"
    assert ("www-authenticate" in response.headers) == ("authorization" in headers)
    assert app.counters.requests[error] == 1


async def test_content_type_may_have_parameters(database: Database) -> None:
    header = add_by_secret(database)
    typed = {**header, "content-type": "Application/X-WWW-Form-Urlencoded; charset=utf-8"}
    assert (await TokenApp(database).request(b"grant_type=client_credentials&x=", headers=typed)).status_code == 200


async def test_other_methods_are_refused(database: Database) -> None:
    app = TokenApp(database)
    response = await app.request(GRANT, method="PUT")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


async def test_plain_http_beyond_this_machine_is_refused(database: Database) -> None:
    add_by_key(database)
    app = TokenApp(database, is_development=False, is_protected=False, base_url="https://bank.example")
    form = assertion_form(assertion("tpp", TOKEN_URL))
    refused = await app.request(form, base="http://bank.example", address="192.0.2.1")
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    assert "plain HTTP" in refused.json()["error_description"]
    # A trusted proxy terminated TLS.
    assert (await app.request(form, base="http://bank.example", address=PROXY)).status_code == 200


async def test_certificate_header_is_accepted_from_trusted_proxies_only(database: Database) -> None:
    add_by_certificate(database)
    app, form = TokenApp(database, **MUTUAL), {**GRANT, "client_id": "tpp"}
    headers = {"client-cert": pki().tpp.header}
    assert (await app.request(form, headers=headers, address=PROXY)).status_code == 200
    assert (await app.request(form, headers=headers, address="192.0.2.1")).status_code == 401
    assert (
        await app.request(form, headers=headers, address="192.0.2.2", certificate=pki().other_tpp)
    ).status_code == 401


async def test_sender_that_fails_too_often_is_rate_limited(database: Database) -> None:
    header = add_by_secret(database)
    app = TokenApp(database, failures_per_minute=1)
    assert (await app.request(GRANT, headers=basic("tpp", "wrong"))).status_code == 401
    refused = await app.request(GRANT, headers=header)
    assert (refused.status_code, app.counters.requests["rate_limited"]) == (429, 1)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    # Senders with another address or with a certificate are not limited.
    assert (await app.request(GRANT, headers=header, address="192.0.2.1")).status_code == 200
    assert (await app.request(GRANT, headers=header, certificate=pki().tpp)).status_code == 200


async def test_successes_and_invalid_requests_are_not_failures(database: Database) -> None:
    header = add_by_secret(database)
    app = TokenApp(database, failures_per_minute=1)
    for _ in range(5):
        assert (await app.request(GRANT, headers=header)).status_code == 200
        assert (await app.request(b"", headers=header)).status_code == 400


async def test_change_after_authentication_prevents_the_token(database: Database) -> None:
    """The client is rotated or suspended between authentication and the issue of the token."""
    header = add_by_secret(database)
    app = TokenApp(database)
    assert (await app.request(GRANT, headers=header)).status_code == 200
    client = database.read_now(clients.get, "tpp")
    database.write_now(clients.rotate, "tpp", None, None, "me")
    with pytest.raises(InvalidClient):
        database.write_now(issue_token, AuthenticatedClient(client), "eventpolling", None, 60)
    authenticated = AuthenticatedClient(database.read_now(clients.get, "tpp"))
    database.write_now(clients.suspend, "tpp", "me")
    with pytest.raises(InvalidClient):
        database.write_now(issue_token, authenticated, "eventpolling", None, 60)


async def test_discovery_document(database: Database) -> None:
    app = TokenApp(database, base_url="https://bank.example", mtls_url="https://mtls.bank.example", **MUTUAL)
    path = "/.well-known/oauth-authorization-server"
    response = await app.request(b"", method="GET", path=path, base="https://elsewhere.example")
    assert response.json() == {
        "issuer": "https://bank.example",
        "token_endpoint": "https://bank.example/token",
        "jwks_uri": "https://bank.example/jwks.json",
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": ["token"],
        "scopes_supported": ["eventpolling", "accounts", "payments", "fundsconfirmations", "ssf.read", "ssf.manage"],
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
    development = TokenApp(database, base_url="http://127.0.0.1:8080")
    found = (await development.request(b"", method="GET", path=path)).json()
    assert found["issuer"] == "http://127.0.0.1:8080"
    assert found["token_endpoint_auth_methods_supported"] == ["private_key_jwt", "client_secret_basic"]
    assert found["tls_client_certificate_bound_access_tokens"] is False
    assert "mtls_endpoint_aliases" not in found
