"""The fast lane's poll beyond the conformance cases: what it leaves to the application, the bytes it has at once."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.events import fast_poll
from restante.events.fast_poll import FastPoll
from restante.identity import client_tokens
from restante.web.answer import Answer
from restante.web.hot import Waits
from tests.events import bank
from tests.events.bank import Customer
from tests.events.polling import Desk

AT_ONCE = b'{"returnImmediately":true}'


class Lane:
    def __init__(self, thumbprint: str | None = None) -> None:
        self.thumbprint = thumbprint
        self.sent: list[Answer] = []
        self.waits: list[Any] = []

    def send(self, answer: Answer) -> None:
        self.sent.append(answer)

    def wait(self, _owner: Waits, parked: Any, _seconds: float) -> None:
        self.waits.append(parked)


@pytest.fixture
def client(database: Database) -> Customer:
    return database.write_now(bank.add_client)


async def known(database: Database, client: Customer) -> tuple[Desk, FastPoll]:
    """A poll that is known to find nothing."""
    desk = Desk(database)
    await desk.tokens.verify(client.token, None)
    await desk.ask(client.id).answer()
    return desk, FastPoll(desk.poll, desk.tokens)


def headers(client: Customer, **more: bytes) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + client.token.encode(), **{n.encode(): v for n, v in more.items()}}


async def test_an_idle_poll_is_answered_with_all_its_bytes(database: Database, client: Customer) -> None:
    _desk, fast = await known(database, client)
    lane = Lane()
    assert not fast.comes_again(AT_ONCE)
    assert fast(b"", AT_ONCE, headers(client), lane)
    assert fast.comes_again(AT_ONCE)
    assert fast.at_once(AT_ONCE, client.token.encode(), b"id-1", b"date: now\r\n", lane) == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-type: application/json\r\ncache-control: no-store\r\n"
        b"x-fapi-interaction-id: id-1\r\ncontent-length: 33\r\n\r\n"
        b'{"sets":{},"moreAvailable":false}'
    )
    made = fast.at_once(AT_ONCE, client.token.encode(), None, b"", lane)
    assert made is not None
    assert b"x-fapi-interaction-id: " in made


async def test_what_is_not_answered_at_once(database: Database, client: Customer) -> None:
    desk, fast = await known(database, client)
    fast(b"", AT_ONCE, headers(client), Lane())
    token = client.token.encode()
    assert fast.at_once(AT_ONCE, b"et_unknown", b"id", b"", Lane()) is None
    assert fast.at_once(AT_ONCE, token, b"not an id", b"", Lane()) is None
    assert fast.at_once(b"{}", token, b"id", b"", Lane()) is None
    assert fast.at_once(b'{"maxEvents":1}', token, b"id", b"", Lane()) is None
    desk.poll.bell.ring(client.id)
    assert fast.at_once(AT_ONCE, token, b"id", b"", Lane()) is None


async def test_a_poll_that_waits_is_parked_on_the_lane(database: Database, client: Customer) -> None:
    desk, fast = await known(database, client)
    lane = Lane()
    assert fast(b"", b"{}", headers(client), lane)
    assert desk.poll.bell.everyone_waiting() == lane.waits
    desk.poll.expire(lane.waits[0])
    assert [answer.status for answer in lane.sent] == [200]


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
async def test_every_doubt_is_the_applications(
    database: Database, client: Customer, body: bytes, changed: dict[str, bytes]
) -> None:
    desk, fast = await known(database, client)
    lane = Lane()
    assert not fast(b"", body, headers(client, **changed), lane)
    assert (lane.sent, lane.waits, desk.poll.bell.waiting_count) == ([], [], 0)


async def test_a_bound_token_is_answered_over_a_connection_with_its_certificate(
    database: Database, client: Customer
) -> None:
    desk, fast = await known(database, client)
    token = await database.write(client_tokens.issue, client.id, bank.SCOPE, "thumbprint", 60)
    await desk.tokens.verify(token, "thumbprint")
    bound = client._replace(token=token)
    assert fast(b"", AT_ONCE, headers(bound), Lane("thumbprint"))
    assert fast.at_once(AT_ONCE, token.encode(), b"id", b"", Lane("thumbprint")) is not None
    for other in (None, "another"):
        assert not fast(b"", AT_ONCE, headers(bound), Lane(other))
        assert fast.at_once(AT_ONCE, token.encode(), b"id", b"", Lane(other)) is None


async def test_tokens_of_another_scope_or_bound_to_a_certificate_are_the_applications(
    database: Database, client: Customer
) -> None:
    desk, fast = await known(database, client)
    bound = await database.write(client_tokens.issue, client.id, bank.SCOPE, "thumbprint", 60)
    unscoped = await database.write(client_tokens.issue, client.id, "accounts", None, 60)
    await desk.tokens.verify(bound, "thumbprint")
    await desk.tokens.verify(unscoped, None)
    for token in (bound, unscoped):
        assert not fast(b"", b"{}", headers(client._replace(token=token)), Lane())


async def test_the_bodies_remembered_are_bounded(
    database: Database, client: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_poll, "BODIES_MAX", 4)
    _desk, fast = await known(database, client)
    for n in range(10):
        fast(b"", b'{"returnImmediately":true,"maxEvents":%d}' % n, headers(client), Lane())
        fast(b"", b'{"returnImmediately":true,"ack":["%d"]}' % n, headers(client), Lane())
    assert len(fast._bodies) == 4
    assert not fast.comes_again(b'{"returnImmediately":true,"ack":["1"]}')


def test_what_an_accept_header_must_allow(database: Database) -> None:
    async def asked() -> None:
        desk = Desk(database)
        fast = FastPoll(desk.poll, desk.tokens)
        assert fast.takes({})
        assert fast.takes({b"accept": b"*/*"})
        assert not fast.takes({b"accept": b"text/html"})

    import asyncio

    asyncio.run(asked())
