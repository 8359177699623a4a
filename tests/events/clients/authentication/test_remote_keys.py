"""Clients that publish their keys at an address: registered, refused, read again, and used while it cannot be read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from restante.core.errors import BadInput
from restante.core.events.addresses import parse_allowed
from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.authentication import client_keys
from restante.events.clients.authentication.remote_keys import (
    FRESH_SECONDS,
    READ_INTERVAL_SECONDS,
    USABLE_SECONDS,
    RemoteKeys,
)
from restante.events.clients.clients import EventClient
from restante.events.outgoing_http import OutgoingClient
from restante.identity.jwt.jwks import JWKS_BYTES_MAX
from tests.conftest import ManualClock
from tests.events.client_keys import assertion, assertion_form, jwk, jwks, private_jwk
from tests.events.clients.test_routes_admin import AdminApp
from tests.events.default_options import receiver_client_options
from tests.events.key_host import KeyHost, key_host
from tests.events.tls_files import TlsFiles
from tests.events.token_app import TOKEN_URL, TokenApp

NAMED = {"client_id": "tpp", "name": "a bank app", "token_endpoint_auth_method": "private_key_jwt"}


@pytest.fixture
async def host(tls: TlsFiles) -> AsyncIterator[KeyHost]:
    async with key_host(tls) as host:
        host.publish(jwks("ec-1"))
        yield host


@pytest.fixture
async def http(tls: TlsFiles) -> AsyncIterator[OutgoingClient]:
    allowed = parse_allowed(["127.0.0.0/8", "::1"])
    client = OutgoingClient(receiver_client_options(allowed=allowed, ca_file=str(tls.authority)))
    yield client
    client.close()


class Seconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def keys(database: Database, http: OutgoingClient, seconds: Seconds) -> RemoteKeys:
    return RemoteKeys(database, http, seconds)


@pytest.fixture
async def admin(database: Database, keys: RemoteKeys) -> AsyncIterator[AdminApp]:
    app = AdminApp(database, keys)
    yield app
    await app.client.aclose()


async def register(admin: AdminApp, uri: str) -> None:
    response = await admin.post("/admin/clients", {**NAMED, "jwks_uri": uri})
    assert response.status_code == 201, response.text


async def token_status(app: TokenApp, key: str = "ec-1") -> int:
    return (await app.request(assertion_form(assertion("tpp", TOKEN_URL, key)))).status_code


def token_app(database: Database, keys: RemoteKeys) -> TokenApp:
    return TokenApp(database, keys, is_development=True, is_token_endpoint_audience=True)


def client_of(database: Database) -> EventClient:
    return database.read_now(clients.get, "tpp")


async def test_client_with_an_address_is_registered_with_the_keys_found_there(admin: AdminApp, host: KeyHost) -> None:
    await register(admin, host.uri)
    shown = await admin.get("/admin/clients/tpp")
    assert shown["jwks_uri"] == host.uri
    assert shown["kids"] == ["ec-1"]
    assert shown["jwks_read_at"] == "2027-01-15T08:00:00.000Z"
    assert host.requests == ["GET /keys.json HTTP/1.1"]
    (registered,) = (await admin.get("/admin/events/audit?client_id=tpp"))["items"]
    assert registered["detail"]["jwks_uri"] == host.uri


async def test_client_gets_a_token_with_a_published_key(
    database: Database, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    assert await token_status(token_app(database, keys)) == 200
    assert len(host.requests) == 1


async def test_other_keys_of_the_document_are_ignored(admin: AdminApp, host: KeyHost) -> None:
    without_kid = {name: value for name, value in jwk("ec-2").items() if name != "kid"}
    encryption, unknown = jwk("rsa-1", use="enc"), {"kty": "AKP", "kid": "pq"}
    host.publish({"keys": [encryption, unknown, without_kid, 7, private_jwk("ec-3"), jwk("small-1"), jwk("ed-1")]})
    await register(admin, host.uri)
    assert (await admin.get("/admin/clients/tpp"))["kids"] == ["ed-1"]


async def test_only_twenty_keys_are_kept(keys: RemoteKeys, host: KeyHost) -> None:
    host.publish({"keys": [jwk("ec-1", kid=f"k{n}") for n in range(25)]})
    kept = client_keys.kids((await keys.read(host.uri)).jwks)
    assert kept == [f"k{n}" for n in range(client_keys.KEYS_MAX)]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (b"not json", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "with a public key"),
        (b'{"keys": {}}', "with a public key"),
        (b'{"keys": []}', "with a public key"),
        (b" " * (JWKS_BYTES_MAX + 1), "larger than"),
    ],
)
async def test_address_without_a_usable_key_is_refused(
    admin: AdminApp, host: KeyHost, document: bytes, expected: str
) -> None:
    host.body = document
    response = await admin.post("/admin/clients", {**NAMED, "jwks_uri": host.uri})
    assert response.status_code == 400
    assert "jwks_uri" in response.text
    assert expected in response.text
    assert (await admin.client.get("/admin/clients/tpp")).status_code == 404


@pytest.mark.parametrize("status", [204, 301, 404, 500])
async def test_other_status_than_200_is_refused(keys: RemoteKeys, host: KeyHost, status: int) -> None:
    host.status, host.body = status, b""
    with pytest.raises(BadInput, match=f"response status {status}"):
        await keys.read(host.uri)


@pytest.mark.parametrize(
    "uri", ["http://tpp.example/keys.json", "https://user@tpp.example/", "file:///etc/passwd", "keys.json"]
)
async def test_other_address_than_https_is_refused(keys: RemoteKeys, uri: str) -> None:
    with pytest.raises(BadInput, match="an https address"):
        await keys.read(uri)


async def test_private_address_is_refused(database: Database, tls: TlsFiles, host: KeyHost) -> None:
    client = OutgoingClient(receiver_client_options(ca_file=str(tls.authority)))
    with pytest.raises(BadInput, match="not a public address"):
        await RemoteKeys(database, client).read(host.uri)
    client.close()
    assert host.requests == []


async def test_keys_and_an_address_together_are_refused(admin: AdminApp, host: KeyHost) -> None:
    response = await admin.post("/admin/clients", {**NAMED, "jwks_uri": host.uri, "jwks": jwks("ec-1")})
    assert response.status_code == 400
    assert "jwks_uri" in response.text
    assert host.requests == []


async def test_new_key_is_found_at_its_first_use(
    database: Database, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    host.publish(jwks("ec-2"))
    app = token_app(database, keys)
    assert await token_status(app, "ec-2") == 200
    assert (await admin.get("/admin/clients/tpp"))["kids"] == ["ec-2"]
    newest = (await admin.get("/admin/events/audit?client_id=tpp"))["items"][0]
    assert (newest["event"], newest["actor"], newest["detail"]["kids"]) == ("client.keys_read", "system", ["ec-2"])
    # The key that is no longer published is refused, too.
    assert await token_status(app, "ec-1") == 401


async def test_wrong_signatures_cause_one_read_in_a_minute(
    database: Database, admin: AdminApp, host: KeyHost, keys: RemoteKeys, seconds: Seconds
) -> None:
    await register(admin, host.uri)
    app = token_app(database, keys)
    for _ in range(3):
        assert await token_status(app, "ec-2") == 401
    assert len(host.requests) == 2
    seconds.now += READ_INTERVAL_SECONDS
    assert await token_status(app, "ec-2") == 401
    assert len(host.requests) == 3


async def test_requests_at_the_same_time_share_one_read(
    database: Database, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    host.publish(jwks("ec-2"))
    host.gate.clear()
    app = token_app(database, keys)
    requests = [asyncio.create_task(token_status(app, "ec-2")) for _ in range(4)]
    while len(host.requests) < 2:
        await asyncio.sleep(0)
    host.gate.set()
    assert await asyncio.gather(*requests) == [200] * 4
    assert len(host.requests) == 2


async def test_request_that_began_before_a_read_uses_the_keys_of_that_read(
    database: Database, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    before = client_of(database)
    host.publish(jwks("ec-2"))
    await keys.newer(before)
    newer = await keys.newer(before)
    assert newer is not None
    assert client_keys.kids(newer.credentials.jwks) == ["ec-2"]
    assert await keys.newer(newer) is None
    assert len(host.requests) == 2


async def test_request_that_began_before_a_read_of_old_keys_uses_them_for_another_day(
    database: Database, clock: ManualClock, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    before = client_of(database)
    clock.advance(USABLE_SECONDS)
    for _ in range(2):
        current = await keys.current(before, clock.now_ms)
        assert client_keys.kids(current.credentials.jwks) == ["ec-1"]


async def test_request_that_began_before_its_client_got_another_address_gets_no_keys(
    database: Database, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    before = client_of(database)
    await keys.newer(before)
    rotated = await admin.post("/admin/clients/tpp/rotate", {"jwks_uri": host.uri.replace("keys", "other")})
    assert rotated.status_code == 200
    assert await keys.newer(before) is None


async def test_keys_are_read_again_after_an_hour(
    database: Database, clock: ManualClock, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    host.publish(jwks("ec-2"))
    stored = client_of(database)
    early = await keys.current(stored, clock.now_ms + FRESH_SECONDS * 1000 - 1)
    assert early == stored
    clock.advance(FRESH_SECONDS)
    late = await keys.current(stored, clock.now_ms)
    assert client_keys.kids(late.credentials.jwks) == ["ec-2"]


async def test_stored_keys_verify_for_a_day_while_the_address_cannot_be_read(
    database: Database, clock: ManualClock, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    host.status = 503
    stored = client_of(database)
    assert await keys.current(stored, clock.now_ms + USABLE_SECONDS * 1000 - 1) == stored
    too_late = await keys.current(stored, clock.now_ms + USABLE_SECONDS * 1000)
    assert too_late.credentials.jwks is None


async def test_address_is_replaced_by_keys_and_by_another_address(
    database: Database, admin: AdminApp, host: KeyHost
) -> None:
    await register(admin, host.uri)
    rotated = await admin.post("/admin/clients/tpp/rotate", {"jwks": jwks("ed-1")})
    assert rotated.status_code == 200
    shown = await admin.get("/admin/clients/tpp")
    assert (shown["jwks_uri"], shown["kids"]) == (None, ["ed-1"])
    rotated = await admin.post("/admin/clients/tpp/rotate", {"jwks_uri": host.uri})
    assert rotated.status_code == 200
    shown = await admin.get("/admin/clients/tpp")
    assert (shown["jwks_uri"], shown["kids"]) == (host.uri, ["ec-1"])


async def test_keys_read_from_a_replaced_address_are_not_stored(
    database: Database, admin: AdminApp, host: KeyHost, keys: RemoteKeys
) -> None:
    await register(admin, host.uri)
    before = client_of(database)
    await admin.post("/admin/clients/tpp/rotate", {"jwks": jwks("ed-1")})
    assert await keys.newer(before) is None
    assert client_keys.kids(client_of(database).credentials.jwks) == ["ed-1"]


async def test_token_request_is_not_refused_because_keys_were_read_again_meanwhile(
    database: Database, admin: AdminApp, host: KeyHost
) -> None:
    await register(admin, host.uri)
    before = client_of(database).credentials
    host.publish(jwks("ec-1", "ec-2"))
    await admin.post("/admin/clients/tpp/rotate", {"jwks_uri": host.uri})
    after: Any = client_of(database).credentials
    assert after != before
    assert after.is_same_registration(before)
