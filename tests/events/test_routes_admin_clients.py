from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from restante.database.database import Database
from restante.events import clients
from restante.events.access import AccessOptions
from restante.events.routes_admin_clients import AdminClientRoutes
from restante.events.wire import SHAPE
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import Gate
from restante.web.application import build_application
from tests.events.keys import jwks, private_jwk
from tests.pki import TPP_DN

BY_SECRET = {"name": "a bank app", "token_endpoint_auth_method": "client_secret_basic", "client_id": "tpp"}
BY_KEY = {**BY_SECRET, "token_endpoint_auth_method": "private_key_jwt", "jwks": jwks("ec-1")}
BY_CERTIFICATE = {
    **BY_SECRET,
    "token_endpoint_auth_method": "tls_client_auth",
    "tls_client_auth_subject_dn": TPP_DN,
}


class Office:
    """The operators' routes, asked with an admin's key."""

    def __init__(self, database: Database, **options: Any) -> None:
        self.warned = 0
        _, key = database.write_now(api_keys.create, "me", Role.admin)
        routes = AdminClientRoutes(database, AccessOptions(**options), self._warn).routes()
        tokens = DeviceTokens(database, SigningKeys(database, MasterKey(bytes(32))), OutsideIssuers())
        application = build_application(routes, Gate(database, tokens), SHAPE)
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(application),
            base_url="http://x",
            headers={"authorization": f"Bearer {key}"},
        )

    async def _warn(self) -> None:
        self.warned += 1

    async def post(self, path: str, body: Any = None) -> httpx.Response:
        return await self.client.post(path, json=body) if body is not None else await self.client.post(path)

    async def get(self, path: str) -> Any:
        answer = await self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
async def office(database: Database) -> AsyncIterator[Office]:
    office = Office(database)
    yield office
    await office.client.aclose()


async def test_a_clients_life(office: Office) -> None:
    made = await office.post("/admin/clients", BY_SECRET)
    assert made.status_code == 201
    assert set(made.json()) == {"client_id", "client_secret"}
    assert made.json()["client_id"] == "tpp"
    assert office.warned == 1
    shown = await office.get("/admin/clients/tpp")
    assert shown == {
        "id": 1,
        "client_id": "tpp",
        "name": "a bank app",
        "status": "active",
        "token_endpoint_auth_method": "client_secret_basic",
        "kids": [],
        "tls_client_auth_subject_dn": None,
        "scope": "eventpolling",
        "set_signing_alg": "PS256",
        "created_at": "2027-01-15T08:00:00Z",
        "suspended_at": None,
        "last_poll_at": None,
    }
    assert await office.get("/admin/clients") == {"items": [shown], "next": None}
    rotated = await office.post("/admin/clients/tpp/rotate")
    assert rotated.json()["client_secret"] != made.json()["client_secret"]
    assert (await office.post("/admin/clients/tpp/suspend")).json()["status"] == "suspended"
    assert (await office.post("/admin/clients/tpp/resume")).json()["status"] == "active"
    audit = await office.get("/admin/events/audit?client_id=tpp")
    assert [(each["event"], each["actor"]) for each in audit["items"]] == [
        ("client.resumed", "key:me"),
        ("client.suspended", "key:me"),
        ("client.rotated", "key:me"),
        ("client.registered", "key:me"),
    ]
    assert audit["items"][0]["at"] == "2027-01-15T08:00:00.000Z"
    assert await office.get("/admin/events/audit?client_id=other") == {"items": [], "next": None}


async def test_where_there_is_no_secret_none_is_told(office: Office) -> None:
    assert (await office.post("/admin/clients", BY_KEY)).json() == {"client_id": "tpp"}
    assert (await office.get("/admin/clients/tpp"))["kids"] == ["ec-1"]
    assert (await office.post("/admin/clients", {**BY_CERTIFICATE, "client_id": "tls"})).json() == {"client_id": "tls"}
    assert (await office.get("/admin/clients/tls"))["tls_client_auth_subject_dn"] == TPP_DN
    assert (await office.post("/admin/clients/tpp/rotate", {"jwks": jwks("ed-1")})).json() == {"client_id": "tpp"}
    new_subject = {"tls_client_auth_subject_dn": "CN=b"}
    assert (await office.post("/admin/clients/tls/rotate", new_subject)).json() == {"client_id": "tls"}


async def test_a_client_id_that_is_taken(office: Office) -> None:
    await office.post("/admin/clients", BY_KEY)
    again = await office.post("/admin/clients", BY_KEY)
    assert again.status_code == 409
    assert again.json()["Errors"][0]["ErrorCode"] == "UK.OBIE.Rules.ResourceAlreadyExists"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({**BY_KEY, "jwks": {"keys": [private_jwk("ec-1")]}}, "jwks.keys[0].d"),
        ({**BY_KEY, "jwks": None}, "jwks.keys"),
        ({**BY_CERTIFICATE, "tls_client_auth_subject_dn": "x"}, "tls_client_auth_subject_dn"),
        ({**BY_SECRET, "jwks": jwks("ec-1")}, "jwks"),
        ({**BY_SECRET, "scope": "accounts"}, "scope"),
        ({**BY_SECRET, "set_signing_alg": "HS256"}, "set_signing_alg"),
        ({**BY_SECRET, "token_endpoint_auth_method": "none"}, "token_endpoint_auth_method"),
        ({**BY_SECRET, "client_id": "a b"}, "client_id"),
    ],
)
async def test_what_is_wrong_is_named(office: Office, database: Database, body: dict[str, Any], path: str) -> None:
    answer = await office.post("/admin/clients", body)
    assert answer.status_code == 400
    assert answer.json()["Errors"][0]["Path"] == path
    assert database.read_now(clients.count) == 0


async def test_a_secret_that_could_never_be_used_is_not_made(database: Database) -> None:
    office = Office(database, is_development=False)
    refused = await office.post("/admin/clients", BY_SECRET)
    assert refused.status_code == 400
    assert refused.json()["Errors"][0]["Path"] == "token_endpoint_auth_method"
    assert (await office.post("/admin/clients", BY_KEY)).status_code == 201
    await office.client.aclose()


async def test_who_is_not_there(office: Office) -> None:
    for path in ("/admin/clients/x", "/admin/clients/%00"):
        assert (await office.client.get(path)).status_code == 404
        for action in ("rotate", "suspend", "resume"):
            assert (await office.post(f"{path}/{action}")).status_code == 404
