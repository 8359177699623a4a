import httpx
import pytest

from restante.core.iso_time import iso_precise
from restante.identity.callers import Role
from tests.identity.people_and_devices import add_device
from tests.updates.auth_app import AuthApp, SignedInPerson, code_of, field_named


async def test_devices_are_listed_in_pages(app: AuthApp, person: SignedInPerson) -> None:
    ids = [add_device(app.database, person.user_id) for _ in range(5)]
    seen, target = [], f"{person.devices}?limit=2"
    while target:
        response = await person.client.get(target)
        page = response.json()["data"]
        assert len(page) <= 2
        seen += [device["id"] for device in page]
        target = response.links.get("next", {}).get("url", "")
        assert ("x-next-after" in response.headers) == bool(target)
    assert seen == ids
    whole = await person.client.get(person.devices)
    assert (len(whole.json()["data"]), "link" in whole.headers) == (5, False)
    assert "link" not in (await person.client.get(f"{person.devices}?limit=5")).headers


async def test_next_page_keeps_the_query(app: AuthApp, person: SignedInPerson) -> None:
    ids = [add_device(app.database, person.user_id) for _ in range(3)]
    response = await person.client.get(f"{person.devices}?after=0&limit=1&page=array&x=a%20%3E%22")
    link = f'<{person.devices}?limit=1&page=array&x=a+%3E%22&after={ids[0]}>; rel="next"'
    assert (response.headers["link"], response.headers["x-next-after"]) == (link, str(ids[0]))


async def test_list_is_an_object_on_request(app: AuthApp, person: SignedInPerson) -> None:
    ids = [add_device(app.database, person.user_id) for _ in range(3)]
    response = await person.client.get(f"{person.devices}?page=object&limit=2")
    page = response.json()["data"]
    assert ([device["id"] for device in page["items"]], page["next"]) == (ids[:2], ids[1])
    assert "link" not in response.headers
    for shape in ("", "list", "object&page=array"):
        assert field_named(await person.client.get(f"{person.devices}?page={shape}")) == "page"


async def test_own_devices_are_those_of_the_caller(app: AuthApp, person: SignedInPerson) -> None:
    other = await app.signed_in("ben@example.com")
    ids = [add_device(app.database, person.user_id) for _ in range(3)]
    add_device(app.database, other.user_id)
    response = await person.client.get("/apiv1/me/devices?limit=2")
    assert [device["id"] for device in response.json()["data"]] == ids[:2]
    assert response.headers["link"] == f'</apiv1/me/devices?limit=2&after={ids[1]}>; rel="next"'
    async with app.client() as anonymous:
        assert code_of(await anonymous.get("/apiv1/me/devices")) == (401, 5018)
    assert code_of(await app.key_client(Role.admin).get("/apiv1/me/devices")) == (403, 5022)


@pytest.mark.parametrize(
    ("query", "field"),
    [("limit=0", "limit"), ("limit=501", "limit"), ("limit=x", "limit"), ("after=-1", "after")],
)
async def test_bad_page_parameters_are_refused(person: SignedInPerson, query: str, field: str) -> None:
    assert field_named(await person.client.get(f"{person.devices}?{query}")) == field


async def test_largest_page_is_accepted(person: SignedInPerson) -> None:
    assert (await person.client.get(f"{person.devices}?limit=500")).status_code == 200


async def test_device_is_shown(app: AuthApp, person: SignedInPerson) -> None:
    registered = await person.register()
    response = await person.client.get(f"{person.devices}/{registered['device']['id']}")
    shown = response.json()["data"]
    assert shown == {**registered["device"], "tags": [], "delivery": shown["delivery"]}
    assert shown["delivery"]["lag_signals"] == 0


@pytest.mark.parametrize(("method", "suffix"), [("DELETE", ""), ("POST", "/revoke")])
async def test_revocation_ends_every_token(app: AuthApp, person: SignedInPerson, method: str, suffix: str) -> None:
    registered = await person.register()
    session, device = registered["session"], registered["device"]
    assert (await app.who(session["access_token"])).status_code == 200
    for _ in range(2):
        response = await person.client.request(method, f"{person.devices}/{device['id']}{suffix}")
        assert response.status_code == 200
        assert response.json()["data"]["status"] == "revoked"
        assert response.json()["data"]["revoked_at"] == iso_precise(app.clock.now_ms)
    assert code_of(await app.who(session["access_token"])) == (403, 5022)
    refreshed = await person.client.post("/auth/refresh", json={"refresh_token": session["refresh_token"]})
    assert code_of(refreshed) == (403, 5022)


async def test_missing_and_foreign_device_give_the_same_error(app: AuthApp, person: SignedInPerson) -> None:
    other = await app.signed_in("ben@example.com")
    foreign = add_device(app.database, other.user_id)

    async def responses(device_id: int) -> list[httpx.Response]:
        path = f"{person.devices}/{device_id}"
        return [
            await person.client.get(path),
            await person.client.delete(path),
            await person.client.post(f"{path}/revoke"),
        ]

    for missing, others in zip(await responses(10**18), await responses(foreign), strict=True):
        assert code_of(missing) == (404, 5003)
        assert missing.json() == others.json()
    assert (await other.client.get(f"{other.devices}/{foreign}")).json()["data"]["status"] == "active"


async def test_access_by_owner_stranger_and_keys(app: AuthApp, person: SignedInPerson) -> None:
    device = f"{person.devices}/{add_device(app.database, person.user_id)}"
    other = await app.signed_in("ben@example.com")
    reader = app.key_client(Role.viewer)
    async with app.client() as anonymous:
        for path in (person.devices, device):
            assert code_of(await anonymous.get(path)) == (401, 5018)
            assert code_of(await other.client.get(path)) == (403, 5022)
            assert (await reader.get(path)).status_code == 200
        for refused, status in ((anonymous, 401), (other.client, 403), (reader, 403)):
            assert (await refused.delete(device)).status_code == status
            assert (await refused.post(f"{device}/revoke")).status_code == status
    assert code_of(await reader.get("/apiv1/users/999/devices")) == (404, 5003)
    assert (await app.key_client(Role.operator).delete(device)).status_code == 200
