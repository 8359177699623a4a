from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx
import pytest

from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.clients.routes_admin import AdminClientRoutes
from restante.events.response_format import RESPONSE_FORMAT
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import AccessControl
from tests.defaults import new_application, new_device_tokens
from tests.events.client_keys import jwks, private_jwk
from tests.events.default_options import access_options, remote_keys, stored_poll
from tests.pki import TPP_DN

BY_SECRET = {"name": "a bank app", "token_endpoint_auth_method": "client_secret_basic", "client_id": "tpp"}
BY_KEY = {**BY_SECRET, "token_endpoint_auth_method": "private_key_jwt", "jwks": jwks("ec-1")}
BY_CERTIFICATE = {
    **BY_SECRET,
    "token_endpoint_auth_method": "tls_client_auth",
    "tls_client_auth_subject_dn": TPP_DN,
}


class AdminApp:
    """An ASGI application with the operator routes, and an HTTP client with an admin key."""

    def __init__(self, database: Database, keys: RemoteKeys | None = None, **options: Any) -> None:
        self.warnings = 0
        self.algorithms: list[str] = []
        _, key = database.write_now(api_keys.create, "me", Role.admin)
        routes = AdminClientRoutes(
            database,
            access_options(**options),
            self._warn,
            self._make_keys,
            stored_poll,
            keys or remote_keys(database),
        ).routes()
        tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
        application = new_application(routes, AccessControl(database, tokens), RESPONSE_FORMAT)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(application),
            base_url="http://x",
            headers={"authorization": f"Bearer {key}"},
        )

    async def _warn(self) -> None:
        self.warnings += 1

    async def _make_keys(self, algorithms: Iterable[str]) -> None:
        self.algorithms += algorithms

    async def post(self, path: str, body: Any = None) -> httpx.Response:
        return await self.client.post(path, json=body) if body is not None else await self.client.post(path)

    async def get(self, path: str) -> Any:
        response = await self.client.get(path)
        assert response.status_code == 200, response.text
        return response.json()


@pytest.fixture
async def app(database: Database) -> AsyncIterator[AdminApp]:
    app = AdminApp(database)
    yield app
    await app.client.aclose()


async def test_client_is_registered_rotated_suspended_and_resumed(app: AdminApp) -> None:
    registered = await app.post("/admin/clients", BY_SECRET)
    assert registered.status_code == 201
    assert set(registered.json()) == {"client_id", "client_secret"}
    assert registered.json()["client_id"] == "tpp"
    assert app.warnings == 1
    shown = await app.get("/admin/clients/tpp")
    assert shown == {
        "id": 1,
        "client_id": "tpp",
        "name": "a bank app",
        "status": "active",
        "token_endpoint_auth_method": "client_secret_basic",
        "kids": [],
        "jwks_uri": None,
        "jwks_read_at": None,
        "tls_client_auth_subject_dn": None,
        "scope": "eventpolling",
        "set_signing_alg": "PS256",
        "created_at": "2027-01-15T08:00:00.000Z",
        "suspended_at": None,
        "last_poll_at": None,
        "removed_at": None,
        "tags": [],
    }
    assert await app.get("/admin/clients") == {"items": [shown], "next": None}
    rotated = await app.post("/admin/clients/tpp/rotate")
    assert rotated.json()["client_secret"] != registered.json()["client_secret"]
    assert (await app.post("/admin/clients/tpp/suspend")).json()["status"] == "suspended"
    assert (await app.post("/admin/clients/tpp/resume")).json()["status"] == "active"
    audit = await app.get("/admin/events/audit?client_id=tpp")
    assert [(each["event"], each["actor"]) for each in audit["items"]] == [
        ("client.resumed", "key:me"),
        ("client.suspended", "key:me"),
        ("client.rotated", "key:me"),
        ("client.registered", "key:me"),
    ]
    assert audit["items"][0]["at"] == "2027-01-15T08:00:00.000Z"
    assert await app.get("/admin/events/audit?client_id=other") == {"items": [], "next": None}


async def test_client_without_secret_gets_none(app: AdminApp) -> None:
    assert (await app.post("/admin/clients", BY_KEY)).json() == {"client_id": "tpp"}
    assert (await app.get("/admin/clients/tpp"))["kids"] == ["ec-1"]
    assert (await app.post("/admin/clients", {**BY_CERTIFICATE, "client_id": "tls"})).json() == {"client_id": "tls"}
    assert (await app.get("/admin/clients/tls"))["tls_client_auth_subject_dn"] == TPP_DN
    assert (await app.post("/admin/clients/tpp/rotate", {"jwks": jwks("ed-1")})).json() == {"client_id": "tpp"}
    new_subject = {"tls_client_auth_subject_dn": "CN=b"}
    assert (await app.post("/admin/clients/tls/rotate", new_subject)).json() == {"client_id": "tls"}


async def test_existing_client_id_is_a_conflict(app: AdminApp) -> None:
    await app.post("/admin/clients", BY_KEY)
    again = await app.post("/admin/clients", BY_KEY)
    assert again.status_code == 409
    assert again.json()["Errors"][0]["ErrorCode"] == "UK.OBIE.Rules.ResourceAlreadyExists"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({**BY_KEY, "jwks": {"keys": [private_jwk("ec-1")]}}, "jwks.keys[0].d"),
        ({**BY_KEY, "jwks": None}, "jwks.keys"),
        ({**BY_CERTIFICATE, "tls_client_auth_subject_dn": "x"}, "tls_client_auth_subject_dn"),
        ({**BY_SECRET, "jwks": {"keys": 1}}, "jwks.keys"),
        ({**BY_SECRET, "scope": "openid"}, "scope"),
        ({**BY_SECRET, "set_signing_alg": "HS256"}, "set_signing_alg"),
        ({**BY_SECRET, "token_endpoint_auth_method": "none"}, "token_endpoint_auth_method"),
        ({**BY_SECRET, "client_id": "a b"}, "client_id"),
    ],
)
async def test_invalid_registration_names_its_field(
    app: AdminApp, database: Database, body: dict[str, Any], path: str
) -> None:
    response = await app.post("/admin/clients", body)
    assert response.status_code == 400
    assert response.json()["Errors"][0]["Path"] == path
    assert database.read_now(clients.count) == 0


async def test_secret_is_refused_outside_development(database: Database) -> None:
    app = AdminApp(database, is_development=False)
    refused = await app.post("/admin/clients", BY_SECRET)
    assert refused.status_code == 400
    assert refused.json()["Errors"][0]["Path"] == "token_endpoint_auth_method"
    assert (await app.post("/admin/clients", BY_KEY)).status_code == 201
    await app.client.aclose()


async def test_unknown_client_is_not_found(app: AdminApp) -> None:
    for path in ("/admin/clients/x", "/admin/clients/%00"):
        assert (await app.client.get(path)).status_code == 404
        for action in ("rotate", "suspend", "resume"):
            assert (await app.post(f"{path}/{action}")).status_code == 404


async def test_registration_makes_the_keys_that_sign_its_events(app: AdminApp) -> None:
    body = {**BY_SECRET, "set_signing_alg": "ES256", "scope": "eventpolling ssf.read"}
    assert (await app.post("/admin/clients", body)).status_code == 201
    assert app.algorithms == ["ES256", "RS256"]
    assert (await app.post("/admin/clients", {**body, "set_signing_alg": "EdDSA"})).status_code == 409
    assert app.algorithms == ["ES256", "RS256"]
