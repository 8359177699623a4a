"""Requests with a refused access token leave a log line, a count and, if the token proves its client, a row."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import structlog
from structlog.typing import EventDict

from restante.events.clients import clients, refusals
from restante.events.clients.clients import ClientRegistration
from restante.events.clients.refusals import RefusalSummary, last_refusals
from restante.identity.clients import client_tokens
from restante.server.app import Node, opened
from restante.server.config.settings import Settings

SENDER = "198.51.100.66"
ROUTES = [("POST", "/events"), ("GET", "/event-subscriptions"), ("GET", "/ssf/streams")]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with opened(Settings(data=tmp_path)) as node:
        node.database.write_now(clients.add, ClientRegistration("n", "client_secret_basic", "tpp"))
        yield node


@pytest.fixture
async def sender(node: Node) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(node.application(with_lifespan=False), client=(SENDER, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        yield client


def issued(node: Node, scope: str = "eventpolling", thumbprint: str | None = None, seconds: int = 600) -> str:
    client = node.database.read_now(clients.get, "tpp").id
    return node.database.write_now(client_tokens.issue, client, scope, thumbprint, seconds)


async def send(sender: httpx.AsyncClient, token: str, method: str, path: str) -> tuple[int, list[EventDict]]:
    with structlog.testing.capture_logs() as logs:
        response = await sender.request(method, path, headers={"authorization": f"Bearer {token}"})
    return response.status_code, [line for line in logs if line["event"] == "client refused"]


async def recorded(node: Node) -> list[RefusalSummary]:
    await node.client_access.refusals.write()
    return await node.database.read(last_refusals, "tpp")


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_refused_token_of_a_client_is_recorded(
    node: Node, sender: httpx.AsyncClient, method: str, path: str
) -> None:
    tokens = {
        "token_certificate": issued(node, thumbprint="x" * 43),
        "token_scope": issued(node, scope="none"),
        "token_expired": issued(node, seconds=0),
    }
    for reason, token in tokens.items():
        status, lines = await send(sender, token, method, path)
        assert status == (403 if reason == "token_scope" else 401), reason
        assert [(line["client_id"], line["reason"], line["address"]) for line in lines] == [("tpp", reason, SENDER)]
        assert token not in str(lines)
    rows = await recorded(node)
    assert {row.reason: (row.count, row.address) for row in rows} == dict.fromkeys(tokens, (1, SENDER))
    assert "is bound to another certificate" in " ".join(row.detail for row in rows)
    counts = node.client_access.refusals.counts
    assert [counts[reason] for reason in tokens] == [1, 1, 1]


async def test_token_of_a_suspended_client_names_the_client(node: Node, sender: httpx.AsyncClient) -> None:
    node.database.write_now(clients.suspend, "tpp", "operator")
    client = node.database.read_now(clients.get, "tpp").id
    # A token that was issued at the same moment, after the suspension ended all others.
    token = node.database.write_now(client_tokens.issue, client, "eventpolling", None, 600)
    status, (line,) = await send(sender, token, "POST", "/events")
    assert (status, line["client_id"], line["reason"]) == (401, "tpp", "suspended")


async def test_stranger_leaves_no_row_and_few_log_lines(node: Node, sender: httpx.AsyncClient) -> None:
    lines = []
    for number in range(refusals.LOG_LINES_PER_MINUTE + 20):
        status, logged = await send(sender, f"et_invented{number}", "POST", "/events")
        assert status == 401
        lines += logged
    # On a slow machine a further line becomes due every few seconds.
    assert refusals.LOG_LINES_PER_MINUTE <= len(lines) < refusals.LOG_LINES_PER_MINUTE + 20
    assert {(line["client_id"], line["reason"]) for line in lines} == {(None, "token")}
    assert node.client_access.refusals.counts["token"] == refusals.LOG_LINES_PER_MINUTE + 20
    assert await recorded(node) == []


async def test_accepted_token_leaves_nothing(node: Node, sender: httpx.AsyncClient) -> None:
    token = issued(node)
    async with asyncio.timeout(60):
        response = await sender.post(
            "/events", json={"returnImmediately": True}, headers={"authorization": f"Bearer {token}"}
        )
    assert response.status_code == 200
    assert await recorded(node) == []
    assert sum(node.client_access.refusals.counts.values()) == 0
