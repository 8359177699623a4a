"""The poll in the fast lane, beyond the conformance cases: idle responses, and what is left to the application."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.events.inbox import fast_poll
from restante.events.inbox.fast_poll import FastPoll
from restante.events.response_format import V4
from restante.identity.clients import client_tokens
from restante.identity.clients.scopes import POLLING_SCOPES
from restante.web.fast_lane_api import WaitOwner
from restante.web.response import ApiResponse
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient
from tests.events.poll_harness import EventsHarness

AT_ONCE = b'{"returnImmediately":true}'


class Connection:
    def __init__(self, thumbprint: str | None = None) -> None:
        self.thumbprint = thumbprint
        self.sent: list[ApiResponse] = []
        self.waits: list[Any] = []

    def send(self, answer: ApiResponse) -> None:
        self.sent.append(answer)

    def wait(self, _owner: WaitOwner, parked: Any, _seconds: float) -> None:
        self.waits.append(parked)


async def with_empty_inbox(database: Database, client: PollingClient) -> tuple[EventsHarness, FastPoll]:
    """A poll of a client whose inbox is known to be empty."""
    harness = EventsHarness(database)
    await harness.tokens.verify(client.token, None)
    await harness.start(client.id).response()
    return harness, FastPoll(harness.poll, harness.tokens, POLLING_SCOPES, V4)


def headers(client: PollingClient, **more: bytes) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + client.token.encode(), **{n.encode(): v for n, v in more.items()}}


async def test_idle_poll_gets_all_bytes_of_the_response(database: Database, client: PollingClient) -> None:
    _harness, fast = await with_empty_inbox(database, client)
    connection = Connection()
    assert not fast.is_repeated(AT_ONCE)
    assert fast(b"", AT_ONCE, headers(client), connection)
    assert fast.is_repeated(AT_ONCE)
    assert fast.idle_response(AT_ONCE, client.token.encode(), b"id-1", b"date: now\r\n", connection) == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-type: application/json; charset=utf-8\r\ncache-control: no-store\r\n"
        b"x-fapi-interaction-id: id-1\r\ncontent-length: 33\r\n\r\n"
        b'{"sets":{},"moreAvailable":false}'
    )
    made = fast.idle_response(AT_ONCE, client.token.encode(), None, b"", connection)
    assert made is not None
    assert b"x-fapi-interaction-id: " in made


async def test_other_polls_get_no_idle_response(database: Database, client: PollingClient) -> None:
    harness, fast = await with_empty_inbox(database, client)
    fast(b"", AT_ONCE, headers(client), Connection())
    token = client.token.encode()
    assert fast.idle_response(AT_ONCE, b"et_unknown", b"id", b"", Connection()) is None
    assert fast.idle_response(AT_ONCE, token, b"not an id", b"", Connection()) is None
    assert fast.idle_response(b"{}", token, b"id", b"", Connection()) is None
    assert fast.idle_response(b'{"maxEvents":1}', token, b"id", b"", Connection()) is None
    harness.poll.waiters.notify(client.id)
    assert fast.idle_response(AT_ONCE, token, b"id", b"", Connection()) is None


async def test_waiting_poll_is_parked_on_its_connection(database: Database, client: PollingClient) -> None:
    harness, fast = await with_empty_inbox(database, client)
    connection = Connection()
    assert fast(b"", b"{}", headers(client), connection)
    assert harness.poll.waiters.all_waiters() == connection.waits
    harness.poll.expire(connection.waits[0])
    assert [answer.status for answer in connection.sent] == [200]


@pytest.mark.parametrize(
    ("body", "changed"),
    [
        (b"{", {}),
        (b'{"maxEvents":-1}', {}),
        (b"{}", {"authorization": b"bearer x"}),
        (b"{}", {"authorization": b""}),
        (b"{}", {"x-fapi-interaction-id": b"not an id"}),
    ],
)
async def test_request_that_is_not_plain_is_left_to_the_application(
    database: Database, client: PollingClient, body: bytes, changed: dict[str, bytes]
) -> None:
    harness, fast = await with_empty_inbox(database, client)
    connection = Connection()
    assert not fast(b"", body, headers(client, **changed), connection)
    assert (connection.sent, connection.waits, harness.poll.parked_count) == ([], [], 0)


async def test_bound_token_is_served_on_a_connection_with_its_certificate(
    database: Database, client: PollingClient
) -> None:
    harness, fast = await with_empty_inbox(database, client)
    token = await database.write(client_tokens.issue, client.id, inbox_fixture.SCOPE, "thumbprint", 60)
    await harness.tokens.verify(token, "thumbprint")
    bound = client._replace(token=token)
    assert fast(b"", AT_ONCE, headers(bound), Connection("thumbprint"))
    assert fast.idle_response(AT_ONCE, token.encode(), b"id", b"", Connection("thumbprint")) is not None
    for other in (None, "another"):
        assert not fast(b"", AT_ONCE, headers(bound), Connection(other))
        assert fast.idle_response(AT_ONCE, token.encode(), b"id", b"", Connection(other)) is None


async def test_token_of_another_scope_or_certificate_is_left_to_the_application(
    database: Database, client: PollingClient
) -> None:
    harness, fast = await with_empty_inbox(database, client)
    bound = await database.write(client_tokens.issue, client.id, inbox_fixture.SCOPE, "thumbprint", 60)
    unscoped = await database.write(client_tokens.issue, client.id, "accounts", None, 60)
    await harness.tokens.verify(bound, "thumbprint")
    await harness.tokens.verify(unscoped, None)
    for token in (bound, unscoped):
        assert not fast(b"", b"{}", headers(client._replace(token=token)), Connection())


async def test_cached_bodies_are_bounded(
    database: Database, client: PollingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_poll, "BODIES_MAX", 4)
    _harness, fast = await with_empty_inbox(database, client)
    bodies = [b'{"returnImmediately":true,"maxEvents":%d}' % n for n in range(1, 11)]
    for n, body in enumerate(bodies):
        fast(b"", body, headers(client), Connection())
        fast(b"", b'{"returnImmediately":true,"ack":["%d"]}' % n, headers(client), Connection())
    # The two empty bodies are cached from the start.
    assert sum(map(fast.is_repeated, bodies)) == 4 - 2
    assert not fast.is_repeated(b'{"returnImmediately":true,"ack":["1"]}')


def test_accept_header_must_allow_json(database: Database) -> None:
    async def call() -> None:
        harness = EventsHarness(database)
        fast = FastPoll(harness.poll, harness.tokens, POLLING_SCOPES, V4)
        assert fast.accepts({})
        assert fast.accepts({b"accept": b"*/*"})
        assert not fast.accepts({b"accept": b"text/html"})

    import asyncio

    asyncio.run(call())
