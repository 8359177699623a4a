from collections.abc import AsyncIterator

import httpx
import pytest

from restante.database.database import Database
from restante.identity.callers import Role
from tests.conftest import ManualClock
from tests.identity.population import add_device
from tests.updates.auth_app import AuthApp, SignedIn, code_of, field_named, serving


@pytest.fixture
async def app(database: Database, clock: ManualClock) -> AsyncIterator[AuthApp]:
    async with serving(database, clock) as app:
        yield app


@pytest.fixture
async def person(app: AuthApp) -> SignedIn:
    return await app.signed_in()


async def test_pages(app: AuthApp, person: SignedIn) -> None:
    ids = [add_device(app.database, person.user_id) for _ in range(5)]
    seen, after = [], 0
    while after is not None:
        page = (await person.client.get(f"{person.devices}?limit=2&after={after}")).json()["data"]
        assert len(page["items"]) <= 2
        seen += [device["id"] for device in page["items"]]
        after = page["next"]
    assert seen == ids
    whole = (await person.client.get(person.devices)).json()["data"]
    assert (len(whole["items"]), whole["next"]) == (5, None)
    exact = (await person.client.get(f"{person.devices}?limit=5")).json()["data"]
    assert exact["next"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=501", "limit"), ("limit=x", "limit"), ("after=-1", "after")],
)
async def test_bad_pages(person: SignedIn, query: str, field: str) -> None:
    assert field_named(await person.client.get(f"{person.devices}?{query}")) == field


async def test_the_largest_page(person: SignedIn) -> None:
    assert (await person.client.get(f"{person.devices}?limit=500")).status_code == 200


async def test_one_device(app: AuthApp, person: SignedIn) -> None:
    registered = await person.register()
    answer = await person.client.get(f"{person.devices}/{registered['device']['id']}")
    assert answer.json() == {"data": registered["device"]}


@pytest.mark.parametrize(("method", "suffix"), [("DELETE", ""), ("POST", "/revoke")])
async def test_revoking_ends_every_token(app: AuthApp, person: SignedIn, method: str, suffix: str) -> None:
    registered = await person.register()
    session, device = registered["session"], registered["device"]
    assert (await app.who(session["access_token"])).status_code == 200
    for _ in range(2):
        answer = await person.client.request(method, f"{person.devices}/{device['id']}{suffix}")
        assert answer.status_code == 200
        assert answer.json()["data"]["status"] == "revoked"
        assert answer.json()["data"]["revoked_at"] == app.clock.now_ms // 1000
    assert code_of(await app.who(session["access_token"])) == (403, 5022)
    refreshed = await person.client.post("/auth/refresh", json={"refresh_token": session["refresh_token"]})
    assert code_of(refreshed) == (403, 5022)


async def test_absent_and_foreign_devices_look_the_same(app: AuthApp, person: SignedIn) -> None:
    other = await app.signed_in("ben@example.com")
    foreign = add_device(app.database, other.user_id)

    async def answers(device_id: int) -> list[httpx.Response]:
        path = f"{person.devices}/{device_id}"
        return [
            await person.client.get(path),
            await person.client.delete(path),
            await person.client.post(f"{path}/revoke"),
        ]

    for absent, theirs in zip(await answers(10**18), await answers(foreign), strict=True):
        assert code_of(absent) == (404, 5003)
        assert absent.json() == theirs.json()
    assert (await other.client.get(f"{other.devices}/{foreign}")).json()["data"]["status"] == "active"


async def test_who_may_do_what(app: AuthApp, person: SignedIn) -> None:
    device = f"{person.devices}/{add_device(app.database, person.user_id)}"
    other = await app.signed_in("ben@example.com")
    reader = app.key_client(Role.viewer)
    async with app.client() as nobody:
        for path in (person.devices, device):
            assert code_of(await nobody.get(path)) == (401, 5018)
            assert code_of(await other.client.get(path)) == (403, 5022)
            assert (await reader.get(path)).status_code == 200
        for refused, status in ((nobody, 401), (other.client, 403), (reader, 403)):
            assert (await refused.delete(device)).status_code == status
            assert (await refused.post(f"{device}/revoke")).status_code == status
    assert code_of(await reader.get("/apiv1/users/999/devices")) == (404, 5003)
    assert (await app.key_client(Role.operator).delete(device)).status_code == 200
