"""The session link: its code works once, in time, and only as it is."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from restante.demo.session_link import CODE_SECONDS, SessionLink

CONSOLE = "http://127.0.0.1:1/console"
COOKIE = "restante_session=token; Path=/; HttpOnly; SameSite=Lax"


@asynccontextmanager
async def opened(clock: Callable[[], float]) -> AsyncIterator[tuple[str, list[int], httpx.AsyncClient]]:
    signed_in: list[int] = []

    async def sign_in() -> str:
        signed_in.append(1)
        return COOKIE

    link = SessionLink(CONSOLE, sign_in, clock)
    async with httpx.AsyncClient() as client:
        yield await link.open("127.0.0.1"), signed_in, client
    await link.close()


async def test_first_use_sets_the_cookie_and_leads_to_the_console() -> None:
    async with opened(lambda: 0.0) as (link, signed_in, client):
        found = await client.get(link)
    assert (found.status_code, found.headers["location"], found.headers["set-cookie"]) == (303, CONSOLE, COOKIE)
    assert found.headers["cache-control"] == "no-store"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert len(signed_in) == 1


async def test_second_use_is_refused() -> None:
    async with opened(lambda: 0.0) as (link, signed_in, client):
        await client.get(link)
        again = await client.get(link)
    assert again.status_code == 410
    assert "set-cookie" not in again.headers
    assert len(signed_in) == 1


async def test_late_use_is_refused() -> None:
    now = [0.0]
    async with opened(lambda: now[0]) as (link, signed_in, client):
        now[0] = CODE_SECONDS
        late = await client.get(link)
    assert late.status_code == 410
    assert signed_in == []


Change = Callable[[httpx.AsyncClient, str], Awaitable[httpx.Response]]


@pytest.mark.parametrize(
    "change",
    [
        lambda client, link: client.get(link[:-1]),
        lambda client, link: client.get(link + "x"),
        lambda client, link: client.get(link.replace("/open/", "/")),
        lambda client, link: client.head(link),
        lambda client, link: client.post(link),
    ],
    ids=["shorter", "longer", "other path", "head", "post"],
)
async def test_other_requests_neither_sign_in_nor_use_the_code_up(change: Change) -> None:
    async with opened(lambda: 0.0) as (link, signed_in, client):
        refused = await change(client, link)
        accepted = await client.get(link)
    assert refused.status_code in (404, 410)
    assert accepted.status_code == 303
    assert len(signed_in) == 1


async def test_bytes_that_are_no_request_do_not_end_the_listener() -> None:
    import asyncio

    async with opened(lambda: 0.0) as (link, _, client):
        host, port = httpx.URL(link).host, httpx.URL(link).port
        _reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"\x16\x03\x01" + b"x" * 40_000)
        writer.close()
        assert (await client.get(link)).status_code == 303
