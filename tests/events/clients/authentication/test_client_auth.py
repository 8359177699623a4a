import time
from collections.abc import Mapping

import pytest

from restante.core.errors import RestanteError
from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.authentication.client_auth import ClientAuth, TokenRequest, auth_method
from restante.events.clients.authentication.client_keys import ALGORITHMS
from restante.events.clients.authentication.oauth_errors import InvalidClient, OAuthError
from restante.identity.clients.client_certificates import ClientCertificate, from_der
from tests.events.client_keys import ASSERTION_TYPE, assertion, assertion_form
from tests.events.default_options import remote_keys
from tests.events.token_app import TOKEN_URL, add_by_certificate, add_by_key, add_by_secret, basic
from tests.pki import CertificateFiles, pki

UNIFORM = "client authentication failed"


def certificate_of(pair: CertificateFiles) -> ClientCertificate:
    found = from_der(pair.der)
    assert found is not None
    return found


def request(
    form: Mapping[str, str], authorization: str | None = None, certificate: CertificateFiles | None = None
) -> TokenRequest:
    client_certificate = certificate_of(certificate) if certificate else None
    return TokenRequest(form, authorization, client_certificate, frozenset([TOKEN_URL]), time.time())


def auth(database: Database, *, is_development: bool = True) -> ClientAuth:
    return ClientAuth(
        database,
        remote_keys(database),
        is_development=is_development,
        assertion_seconds_max=300,
        assertion_algorithms=ALGORITHMS,
    )


async def refused(database: Database, token_request: TokenRequest, **options: bool) -> RestanteError:
    with pytest.raises(RestanteError) as raised:
        await auth(database, **options).authenticate(token_request)
    return raised.value


@pytest.mark.parametrize(
    ("form", "authorization", "method"),
    [
        ({}, "Basic x", "client_secret_basic"),
        ({"client_id": "a"}, "Basic x", "client_secret_basic"),
        ({"client_assertion_type": ASSERTION_TYPE, "client_assertion": "x"}, None, "private_key_jwt"),
        ({"client_id": "a"}, None, "tls_client_auth"),
    ],
)
def test_auth_method_of_a_request(form: dict[str, str], authorization: str | None, method: str) -> None:
    assert auth_method(request(form, authorization)) == method


@pytest.mark.parametrize(
    ("form", "authorization", "kind"),
    [
        ({}, None, InvalidClient),
        ({"client_id": "a", "client_secret": "b"}, None, InvalidClient),
        ({"client_secret": "b"}, "Basic x", InvalidClient),
        ({"client_assertion": "x"}, None, OAuthError),
        ({"client_assertion_type": ASSERTION_TYPE}, None, OAuthError),
        ({"client_assertion_type": "other", "client_assertion": "x"}, None, OAuthError),
        ({"client_assertion_type": ASSERTION_TYPE, "client_assertion": "x"}, "Basic x", OAuthError),
    ],
)
def test_no_method_or_several_methods_are_refused(
    form: dict[str, str], authorization: str | None, kind: type[RestanteError]
) -> None:
    with pytest.raises(kind):
        auth_method(request(form, authorization))


async def test_client_authenticates_by_secret(database: Database) -> None:
    header = add_by_secret(database)["authorization"]
    assert (await auth(database).authenticate(request({}, header))).client.client_id == "tpp"
    assert (await auth(database).authenticate(request({"client_id": "tpp"}, header))).assertion is None
    assert isinstance(await refused(database, request({"client_id": "other"}, header)), OAuthError)


async def test_secret_is_refused_outside_development(database: Database) -> None:
    header = add_by_secret(database)["authorization"]
    error = await refused(database, request({}, header), is_development=False)
    assert isinstance(error, InvalidClient)
    assert "development" in error.message
    assert error.with_header


@pytest.mark.parametrize(
    "authorization",
    [
        basic("tpp", "wrong")["authorization"],
        basic("nobody", "x")["authorization"],
        basic("a\0", "x")["authorization"],
        basic("é", "x")["authorization"],
        basic("a" * 1000, "x")["authorization"],
        "Basic",
        "Basic !!!",
        "Basic dHBw",
        "Basic /w==",
        "Bearer x",
        "",
    ],
)
async def test_all_wrong_secrets_get_the_same_error(database: Database, authorization: str) -> None:
    add_by_secret(database)
    error = await refused(database, request({}, authorization))
    assert isinstance(error, InvalidClient)
    assert (error.message, error.with_header) == (UNIFORM, True)


async def test_client_authenticates_by_assertion(database: Database) -> None:
    add_by_key(database)
    authenticated = await auth(database).authenticate(request(assertion_form(assertion("tpp", TOKEN_URL, jti="one"))))
    assert authenticated.client.client_id == "tpp"
    assert authenticated.assertion is not None
    assert authenticated.assertion.jti == "one"


async def test_assertion_of_an_unknown_or_another_client_is_refused(database: Database) -> None:
    add_by_key(database)
    assert (await refused(database, request(assertion_form(assertion("nobody", TOKEN_URL))))).message == UNIFORM
    form = assertion_form(assertion("tpp", TOKEN_URL), client_id="other")
    assert isinstance(await refused(database, request(form)), OAuthError)


async def test_client_authenticates_by_certificate(database: Database) -> None:
    add_by_certificate(database)
    authenticated = await auth(database).authenticate(request({"client_id": "tpp"}, None, pki().tpp))
    assert authenticated.client.client_id == "tpp"


@pytest.mark.parametrize("name", ["none", "other_tpp", "expired"])
async def test_missing_or_wrong_certificate_is_refused(database: Database, name: str) -> None:
    add_by_certificate(database)
    certificate = None if name == "none" else getattr(pki(), name)
    error = await refused(database, request({"client_id": "tpp"}, None, certificate))
    assert isinstance(error, InvalidClient)
    assert (error.message, error.with_header) == (UNIFORM, False)


async def test_only_the_registered_method_authenticates(database: Database) -> None:
    header = add_by_secret(database, "by-secret")["authorization"]
    add_by_key(database, client_id="by-key")
    add_by_certificate(database, client_id="by-certificate")
    requests = [
        request({"client_id": "by-secret"}, None, pki().tpp),
        request({"client_id": "by-key"}, None, pki().tpp),
        request(assertion_form(assertion("by-secret", TOKEN_URL))),
        request(assertion_form(assertion("by-certificate", TOKEN_URL))),
        request({}, basic("by-key", "x")["authorization"]),
    ]
    for each in requests:
        assert (await refused(database, each)).message == UNIFORM
    await auth(database).authenticate(request({}, header))


async def test_suspended_client_gets_the_same_error_as_an_unknown_one(database: Database) -> None:
    header = add_by_secret(database)["authorization"]
    database.write_now(clients.suspend, "tpp", "me")
    assert (await refused(database, request({}, header))).message == UNIFORM
