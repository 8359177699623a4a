"""The poll in the application: how requests are parsed, and that a wait ends when its client disconnects."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from restante.database.database import Database
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.updates.polling.routes import PollRoutes
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from tests.defaults import new_application, new_device_tokens
from tests.identity.people_and_devices import add_device, add_user
from tests.updates.auth_app import code_of, field_named
from tests.updates.poll_harness import SOON, UpdatesHarness, poll_options

PATH = "/apiv1/devices/self/updates"
BURST = 30


class Device:
    """A device that polls the real application."""

    def __init__(self, harness: UpdatesHarness, access_control: AccessControl, device_id: int, token: str) -> None:
        self.harness = harness
        self.id = device_id
        self.token = token
        self.application = new_application(PollRoutes(harness.poll).routes(), access_control, RESPONSE_FORMAT)
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.application), base_url="http://restante.test"
        )

    async def poll(self, query: str = "", *headers: tuple[str, str]) -> httpx.Response:
        sent = [("authorization", f"Bearer {self.token}"), *headers]
        return await self._client.get(f"{PATH}?{query}" if query else PATH, headers=sent)

    async def publish(self, *subjects: Any) -> str:
        return (await self.harness.publish(*subjects, device=self.id)).decode()

    async def until_parked(self) -> None:
        async with asyncio.timeout(SOON):
            while self.harness.poll.parked_count != 1:
                await asyncio.sleep(0)


@pytest.fixture
async def device(database: Database) -> AsyncIterator[Device]:
    tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
    await tokens.start()
    user_id = add_user(database)
    device_id = add_device(database, user_id)
    harness = UpdatesHarness(database, poll_options(coalesce_seconds=0.0, burst=BURST, rate_per_second=0.001))
    yield Device(harness, AccessControl(database, tokens), device_id, tokens.mint(user_id, device_id))
    assert harness.poll.parked_count == 0


def seen(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200, response.text
    return [signal["ref"]["about"] for signal in response.json()["data"]["signals"]]


async def test_signals_after_the_cursor_are_returned(device: Device) -> None:
    newest = await device.publish(1, 2, 3)
    response = await device.poll("limit=2&cursor=0-0")
    assert seen(response) == [1, 2]
    assert response.headers["etag"] == response.json()["data"]["cursor"] != newest
    assert seen(await device.poll("", ("if-none-match", response.headers["etag"]))) == [3]


async def test_no_new_signals_is_a_204(device: Device) -> None:
    newest = await device.publish(1)
    response = await device.poll(f"cursor={newest}")
    assert (response.status_code, response.headers["etag"]) == (204, newest)


@pytest.mark.parametrize("form", ["{}", '"{}"', 'W/"{}"'])
async def test_header_in_every_form_wins_over_the_query(device: Device, form: str) -> None:
    newest = await device.publish(1)
    assert (await device.poll("cursor=0-0", ("if-none-match", form.format(newest)))).status_code == 204


async def test_second_cursor_is_refused(device: Device) -> None:
    twice = await device.poll("", ("if-none-match", "0-0"), ("if-none-match", "0-0"))
    assert field_named(twice) == "If-None-Match"
    assert field_named(await device.poll("cursor=0-0&cursor=0-0")) == "cursor"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        *(("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("wait=31", "wait")),
        *(("wait=-1", "wait"), ("cursor=", "cursor"), ("cursor=x", "cursor"), ('cursor="0-0"', "cursor")),
    ],
)
async def test_invalid_parameter_is_named_and_takes_no_token(device: Device, query: str, field: str) -> None:
    for _ in range(BURST + 1):
        assert field_named(await device.poll(query)) == field
    assert (await device.poll()).status_code == 204


async def test_too_many_polls_are_refused(device: Device) -> None:
    for _ in range(BURST):
        assert (await device.poll()).status_code == 204
    refused = await device.poll()
    assert code_of(refused) == (429, 5013)
    assert int(refused.headers["retry-after"]) >= 1


async def test_wait_ends_with_a_new_signal(device: Device) -> None:
    newest = await device.publish(1)
    waiting = asyncio.create_task(device.poll(f"cursor={newest}&wait=30"))
    await device.until_parked()
    await device.publish(2)
    assert seen(await waiting) == [2]


async def test_wait_ends_with_its_time(device: Device) -> None:
    newest = await device.publish(1)
    started = asyncio.get_running_loop().time()
    response = await device.poll(f"cursor={newest}&wait=1")
    assert response.status_code == 204
    assert asyncio.get_running_loop().time() - started >= 1.0


async def test_wait_ends_with_its_client(device: Device) -> None:
    """The fixture checks that no poll is parked any more."""
    newest = await device.publish(1)
    disconnected = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        return None

    scope = {
        "type": "http",
        "method": "GET",
        "path": PATH,
        "query_string": f"cursor={newest}&wait=30".encode(),
        "headers": [(b"authorization", f"Bearer {device.token}".encode())],
    }
    request = asyncio.create_task(device.application(scope, receive, send))
    await device.until_parked()
    disconnected.set()
    await asyncio.wait_for(request, SOON)
