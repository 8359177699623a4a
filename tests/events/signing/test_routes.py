from typing import Any

import pytest

from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.clients import ClientRegistration, SigningAlg
from restante.events.signing import event_keys
from restante.events.signing.routes import JWKS_MAX_AGE_SECONDS
from restante.identity.callers import Role
from tests.events.operator_app import OperatorApp, error_of
from tests.events.publish_fixture import MASTER


@pytest.fixture
def app(database: Database) -> OperatorApp:
    return OperatorApp(database)


async def test_jwks_is_public_and_cacheable(app: OperatorApp, database: Database) -> None:
    assert (await app.request("GET", "/jwks.json", role=None)).json() == {"keys": []}
    key = database.write_now(event_keys.store_first, event_keys.generate(MASTER, "PS256"))
    response = await app.request("GET", "/jwks.json", role=None)
    [published] = response.json()["keys"]
    assert (published["kid"], published["alg"], published["use"], published["kty"]) == (key.kid, "PS256", "sig", "RSA")
    assert "d" not in published
    assert response.headers["cache-control"] == f"public, max-age={JWKS_MAX_AGE_SECONDS}"
    assert response.headers["content-type"] == "application/json"


@pytest.fixture
def keys(database: Database) -> dict[str, str]:
    """A key for each algorithm; their kids. The types that few libraries know are the newest."""
    return {
        alg: database.write_now(event_keys.store_first, event_keys.generate(MASTER, alg)).kid
        for alg in ("PS256", "RS256", "ES256", "EdDSA")
    }


async def kids(app: OperatorApp, path: str) -> list[str]:
    response = await app.request("GET", path, role=None)
    assert response.status_code == 200, response.text
    assert response.headers["cache-control"] == f"public, max-age={JWKS_MAX_AGE_SECONDS}"
    return [key["kid"] for key in response.json()["keys"]]


async def test_jwks_lists_rsa_then_ec_then_okp(app: OperatorApp, keys: dict[str, str]) -> None:
    assert await kids(app, "/jwks.json") == [keys[alg] for alg in ("RS256", "PS256", "ES256", "EdDSA")]


async def test_jwks_of_one_algorithm_has_no_other_keys(app: OperatorApp, keys: dict[str, str]) -> None:
    for alg, kid in keys.items():
        assert await kids(app, f"/jwks.json?alg={alg}") == [kid]


@pytest.mark.parametrize("query", ["alg=HS256", "alg=", "alg=ps256", "alg=PS256&alg=ES256"])
async def test_jwks_of_an_unknown_algorithm_is_refused(app: OperatorApp, query: str) -> None:
    assert error_of(await app.request("GET", f"/jwks.json?{query}", role=None)) == (400, "Field.Invalid", "alg")


@pytest.mark.parametrize(
    ("scope", "alg", "shown"),
    [
        ("eventpolling", "PS256", ["PS256"]),
        ("eventpolling", "EdDSA", ["EdDSA"]),
        ("eventpolling ssf.read", "ES256", ["RS256", "ES256"]),
        ("ssf.manage", "RS256", ["RS256"]),
    ],
)
async def test_jwks_of_a_client_has_the_keys_that_sign_its_events(
    app: OperatorApp, database: Database, keys: dict[str, str], scope: str, alg: SigningAlg, shown: list[str]
) -> None:
    registration = ClientRegistration("n", "client_secret_basic", "tpp", set_signing_alg=alg, scope=scope)
    database.write_now(clients.add, registration)
    assert await kids(app, "/clients/tpp/jwks.json") == [keys[each] for each in shown]


@pytest.mark.parametrize("client_id", ["absent", "a" * 200, "%00", "%ff"])
async def test_jwks_of_an_unknown_client_is_not_found(app: OperatorApp, client_id: str) -> None:
    response = await app.request("GET", f"/clients/{client_id}/jwks.json", role=None)
    assert error_of(response) == (404, "Resource.NotFound", None)


def parse_like_node_jose(document: dict[str, Any]) -> list[str]:
    """Return the kids; fail at the first key of an unknown type, as node-jose does for the whole document."""
    for key in document["keys"]:
        if key["kty"] not in ("RSA", "EC", "oct"):
            raise ValueError(f"unsupported key type: {key['kty']}")
    return [key["kid"] for key in document["keys"]]


async def test_library_that_knows_no_okp_keys_reads_the_views(
    app: OperatorApp, database: Database, keys: dict[str, str]
) -> None:
    database.write_now(clients.add, ClientRegistration("n", "client_secret_basic", "tpp"))
    whole = (await app.request("GET", "/jwks.json", role=None)).json()
    with pytest.raises(ValueError, match="OKP"):
        parse_like_node_jose(whole)
    for path in ("/jwks.json?alg=PS256", "/clients/tpp/jwks.json"):
        assert parse_like_node_jose((await app.request("GET", path, role=None)).json()) == [keys["PS256"]]


async def test_keys_are_rotated_listed_and_withdrawn(app: OperatorApp) -> None:
    first = (await app.request("POST", "/admin/events/keys/rotate", {"alg": "EdDSA"})).json()
    second = await app.request("POST", "/admin/events/keys/rotate", {"alg": "EdDSA"})
    assert second.status_code == 201
    listed = (await app.request("GET", "/admin/events/keys", role=Role.viewer)).json()["items"]
    assert [(key["kid"], key["status"]) for key in listed] == [
        (second.json()["kid"], "coming"),
        (first["kid"], "signing"),
    ]
    withdrawn = await app.request("POST", f"/admin/events/keys/{first['kid']}/withdraw")
    assert withdrawn.json() == {"kid": first["kid"], "signed_again": 0}
    keys = (await app.request("GET", "/jwks.json", role=None)).json()["keys"]
    assert [key["kid"] for key in keys] == [second.json()["kid"]]
    again = await app.request("POST", f"/admin/events/keys/{first['kid']}/withdraw")
    assert again.status_code == 409


async def test_rotation_without_body_uses_the_default_algorithm(app: OperatorApp) -> None:
    assert (await app.request("POST", "/admin/events/keys/rotate")).status_code == 201
    [key] = (await app.request("GET", "/admin/events/keys")).json()["items"]
    assert key["alg"] == "PS256"


async def test_invalid_requests_are_refused(app: OperatorApp) -> None:
    rotate = "/admin/events/keys/rotate"
    assert error_of(await app.request("POST", rotate, {"alg": "HS256"})) == (400, "Field.Invalid", "alg")
    assert error_of(await app.request("POST", rotate, {"alg": "PS256", "x": 1})) == (400, "Field.Unexpected", "x")
    assert error_of(await app.request("POST", "/admin/events/keys/none/withdraw"))[0] == 404
    assert (await app.request("POST", rotate, {}, role=Role.operator)).status_code == 403
