"""Each caller behind a proxy has its own limits, and no caller gets a fresh limit by writing the header itself."""

import ipaddress

import httpx
import pytest

from restante.database.database import Database
from restante.identity.devices.device_codes import DeviceCodeLimits
from restante.identity.people.sign_in_limits import PAIR
from restante.web.client_cert import ClientCertificates
from restante.web.origin import Senders
from tests.conftest import ManualClock
from tests.identity.people_and_devices import PASSWORD, add_user
from tests.updates.auth_app import BASE, AuthApp

PROXY, OUTSIDE = "10.0.0.1", "198.51.100.66"
SENDERS = Senders(ClientCertificates([ipaddress.ip_network("10.0.0.0/8")]).is_trusted, "x-forwarded-for")
EMAIL = "ada@example.com"


@pytest.fixture
def app(database: Database, clock: ManualClock) -> AuthApp:
    limits = DeviceCodeLimits(per_address=2, total=100)
    return AuthApp(
        database, clock, code_limits=limits, is_correct=lambda _, password: password == PASSWORD, senders=SENDERS
    )


def through(app: AuthApp, forwarded: str, peer: str = PROXY) -> httpx.AsyncClient:
    return app.client(BASE, peer=peer, headers={"X-Forwarded-For": forwarded})


async def sign_in(app: AuthApp, forwarded: str, peer: str = PROXY, password: str = "wrong") -> int:
    async with through(app, forwarded, peer) as client:
        body = {"action": "login", "email": EMAIL, "password": password}
        return (await client.post("/auth/general", json=body)).status_code


async def start(app: AuthApp, forwarded: str, peer: str = PROXY) -> int:
    async with through(app, forwarded, peer) as client:
        return (await client.post("/auth/device", json={"action": "device_start"})).status_code


async def test_sign_in_limits_count_the_sender_behind_the_proxy(app: AuthApp, database: Database) -> None:
    add_user(database, EMAIL)
    for number in range(PAIR.burst):
        # Whatever the sender writes before what the proxy appends.
        assert await sign_in(app, f"192.0.2.{number}, {OUTSIDE}") == 401
    assert await sign_in(app, f"192.0.2.200, {OUTSIDE}", password=PASSWORD) == 429
    # Another sender behind the same proxy.
    assert await sign_in(app, "203.0.113.9", password=PASSWORD) == 200


async def test_sender_without_a_trusted_proxy_cannot_name_another_address(app: AuthApp, database: Database) -> None:
    add_user(database, EMAIL)
    for number in range(PAIR.burst):
        assert await sign_in(app, f"192.0.2.{number}", peer=OUTSIDE) == 401
    assert await sign_in(app, "192.0.2.200", peer=OUTSIDE, password=PASSWORD) == 429
    # The owner at the address that the attacker named is not affected.
    assert await sign_in(app, "192.0.2.1", password=PASSWORD) == 200


async def test_device_codes_count_for_the_sender_behind_the_proxy(app: AuthApp) -> None:
    assert [await start(app, f"192.0.2.{number}, {OUTSIDE}") for number in range(3)] == [200, 200, 429]
    assert await start(app, "203.0.113.9") == 200
    assert [await start(app, f"192.0.2.{number}", peer="198.51.100.67") for number in range(3)] == [200, 200, 429]
