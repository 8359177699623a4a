"""The poll as the application answers it: what is read of the request, and that a wait ends with its client."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from restante.database.database import Database
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.updates.poll import PollOptions
from restante.updates.routes_poll import PollRoutes
from restante.updates.wire import SHAPE
from restante.web.access import Gate
from restante.web.application import build_application
from tests.identity.population import add_device, add_user
from tests.updates.auth_app import code_of, field_named
from tests.updates.polling import SOON, Post

PATH = "/apiv1/devices/self/updates"
BURST = 30


class Device:
    """A device that polls the real application."""

    def __init__(self, post: Post, gate: Gate, device_id: int, token: str) -> None:
        self.post = post
        self.id = device_id
        self.token = token
        self.application = build_application(PollRoutes(post.poll).routes(), gate, SHAPE)
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.application), base_url="http://restante.test"
        )

    async def poll(self, query: str = "", *headers: tuple[str, str]) -> httpx.Response:
        sent = [("authorization", f"Bearer {self.token}"), *headers]
        return await self._client.get(f"{PATH}?{query}" if query else PATH, headers=sent)

    async def publish(self, *abouts: Any) -> str:
        return (await self.post.publish(*abouts, device=self.id)).decode()

    async def until_parked(self) -> None:
        async with asyncio.timeout(SOON):
            while self.post.poll.bell.waiting_count != 1:
                await asyncio.sleep(0)


@pytest.fixture
async def device(database: Database) -> AsyncIterator[Device]:
    tokens = DeviceTokens(database, SigningKeys(database, MasterKey(bytes(32))), OutsideIssuers())
    await tokens.start()
    user_id = add_user(database)
    device_id = add_device(database, user_id)
    post = Post(database, PollOptions(coalesce_seconds=0.0, burst=BURST, rate_per_second=0.001))
    yield Device(post, Gate(database, tokens), device_id, tokens.mint(user_id, device_id))
    assert post.poll.bell.waiting_count == 0


def seen(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [signal["ref"]["about"] for signal in answer.json()["data"]["signals"]]


async def test_signals_after_the_cursor(device: Device) -> None:
    newest = await device.publish(1, 2, 3)
    answer = await device.poll("limit=2&cursor=0-0")
    assert seen(answer) == [1, 2]
    assert answer.headers["etag"] == answer.json()["data"]["cursor"] != newest
    assert seen(await device.poll("", ("if-none-match", answer.headers["etag"]))) == [3]


async def test_nothing_new(device: Device) -> None:
    newest = await device.publish(1)
    answer = await device.poll(f"cursor={newest}")
    assert (answer.status_code, answer.headers["etag"]) == (204, newest)


@pytest.mark.parametrize("form", ["{}", '"{}"', 'W/"{}"'])
async def test_the_header_in_every_form_wins_over_the_query(device: Device, form: str) -> None:
    newest = await device.publish(1)
    assert (await device.poll("cursor=0-0", ("if-none-match", form.format(newest)))).status_code == 204


async def test_one_cursor_only(device: Device) -> None:
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
async def test_what_is_wrong_is_named_and_costs_no_poll(device: Device, query: str, field: str) -> None:
    for _ in range(BURST + 1):
        assert field_named(await device.poll(query)) == field
    assert (await device.poll()).status_code == 204


async def test_too_many_polls(device: Device) -> None:
    for _ in range(BURST):
        assert (await device.poll()).status_code == 204
    refused = await device.poll()
    assert code_of(refused) == (429, 5013)
    assert int(refused.headers["retry-after"]) >= 1


async def test_a_wait_ends_with_news(device: Device) -> None:
    newest = await device.publish(1)
    waiting = asyncio.create_task(device.poll(f"cursor={newest}&wait=30"))
    await device.until_parked()
    await device.publish(2)
    assert seen(await waiting) == [2]


async def test_a_wait_ends_with_its_time(device: Device) -> None:
    newest = await device.publish(1)
    started = asyncio.get_running_loop().time()
    answer = await device.poll(f"cursor={newest}&wait=1")
    assert answer.status_code == 204
    assert asyncio.get_running_loop().time() - started >= 1.0


async def test_a_wait_ends_with_its_client(device: Device) -> None:
    """The fixture sees to it that nobody waits any more."""
    newest = await device.publish(1)
    hung_up = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await hung_up.wait()
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
    hung_up.set()
    await asyncio.wait_for(request, SOON)
