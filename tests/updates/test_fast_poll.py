"""Which polls the fast lane takes upon itself, and how it answers them; what it leaves, it leaves unchanged."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.updates.fast_poll import QUERIES_MAX, FastPoll
from restante.updates.poll import PollOptions
from restante.web.answer import Answer
from restante.web.hot import Waits
from tests.identity.population import add_device, add_user
from tests.updates.polling import Client, Post, about, header

BURST = 3


class Connection(Client):
    """A lane of which is kept what was sent through it, and what waits on it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: tuple[Waits, Any, float] | None = None

    def send(self, answer: Answer) -> None:
        self(answer)

    thumbprint = None

    def wait(self, owner: Waits, parked: Any, seconds: float) -> None:
        self.waits = (owner, parked, seconds)


class Lane:
    """The handler with a device whose token it knows."""

    def __init__(self, post: Post, tokens: DeviceTokens, device_id: int, token: str) -> None:
        self.post = post
        self.device_id = device_id
        self.token = token.encode()
        self.handler = FastPoll(post.poll, tokens)

    def ask(
        self, query: bytes = b"", cursor: bytes | None = None, authorization: bytes | None = None
    ) -> Connection | None:
        """The connection with its answer, None where the handler leaves it to the application."""
        headers = {b"authorization": b"Bearer " + self.token if authorization is None else authorization}
        if cursor is not None:
            headers[b"if-none-match"] = cursor
        connection = Connection()
        return connection if self.handler(query, headers, connection) else None

    async def publish(self, *abouts: Any) -> bytes:
        return await self.post.publish(*abouts, device=self.device_id)


@pytest.fixture
async def lane(database: Database) -> Lane:
    tokens = DeviceTokens(database, SigningKeys(database, MasterKey(bytes(32))), OutsideIssuers())
    await tokens.start()
    user_id = add_user(database)
    device_id = add_device(database, user_id)
    token = tokens.mint(user_id, device_id)
    await tokens.verify(token)
    options = PollOptions(coalesce_seconds=0.0, burst=BURST, rate_per_second=0.001)
    return Lane(Post(database, options), tokens, device_id, token)


def taken(connection: Connection | None) -> Connection:
    assert connection is not None
    return connection


async def test_signals_are_sent(lane: Lane) -> None:
    newest = await lane.publish(1, 2, 3)
    answer = await taken(lane.ask(b"limit=2", b"0-0")).answer()
    assert about(answer) == [1, 2]
    assert about(await taken(lane.ask(b"cursor=0-0&limit=100")).answer()) == [1, 2, 3]
    assert header(answer, b"etag") != newest


@pytest.mark.parametrize("form", [b"%b", b'"%b"', b'W/"%b"'])
async def test_an_idle_poll_is_answered_without_a_look(lane: Lane, form: bytes) -> None:
    newest = await lane.publish(1)
    connection = taken(lane.ask(b"", form % newest))
    assert connection.status == 204
    assert header(connection.answered.result(), b"etag") == newest


async def test_the_header_wins_over_the_query(lane: Lane) -> None:
    newest = await lane.publish(1)
    assert taken(lane.ask(b"cursor=0-0", newest)).status == 204


async def test_a_wait_is_handed_to_the_lane(lane: Lane) -> None:
    newest = await lane.publish(1)
    connection = taken(lane.ask(b"wait=7", newest))
    assert connection.waits is not None
    owner, parked, seconds = connection.waits
    assert (owner, seconds) == (lane.post.poll, 7)
    owner.expire(parked)
    assert connection.status == 204


async def test_what_is_there_is_not_waited_for(lane: Lane) -> None:
    await lane.publish(1)
    connection = taken(lane.ask(b"wait=7", b"0-0"))
    assert await connection.signals() == [1]


async def test_too_many_polls_are_refused_in_the_lane(lane: Lane) -> None:
    newest = await lane.publish(1)
    for _ in range(BURST):
        assert taken(lane.ask(b"", newest)).status == 204
    answer = taken(lane.ask(b"", newest)).answered.result()
    assert answer.status == 429
    assert int(header(answer, b"retry-after")) >= 1


@pytest.mark.parametrize("authorization", [b"", b"Bearer garbage", b"bearer {token}", b"{token}", b"Bearer {token} "])
async def test_a_token_that_is_not_known_is_the_applications(lane: Lane, authorization: bytes) -> None:
    assert lane.ask(authorization=authorization.replace(b"{token}", lane.token)) is None


@pytest.mark.parametrize("cursor", [b"", b"1", b"a-b", b"1-1-1", b"\xb2-1", b'"1-1', b"-1", b"01-1x"])
async def test_a_cursor_that_is_none_is_the_applications(lane: Lane, cursor: bytes) -> None:
    assert lane.ask(b"", cursor) is None
    assert lane.ask(b"cursor=" + cursor) is None


@pytest.mark.parametrize(
    "query",
    [
        *(b"limit=0", b"limit=101", b"limit=", b"limit", b"limit=-1", b"limit=1.0", b"limit=0001", b"limit=\xb2"),
        *(b"wait=31", b"wait=", b"wait=-1", b"wait=001", b"limit=1&limit=1", b"other=1", b"&", b"limit=1&"),
        *(b"limit=%31", b"limit=+1", b'cursor="1-1"', b'cursor=W/"1-1"', b"cursor=1-1&cursor=1-1"),
    ],
)
async def test_a_query_that_is_not_plain_is_the_applications(lane: Lane, query: bytes) -> None:
    assert lane.ask(query) is None
    # Nothing was taken from the device's allowance by what was left to the application.
    newest = await lane.publish(1)
    assert [taken(lane.ask(b"", newest)).status for _ in range(BURST)] == [204] * BURST


async def test_queries_beyond_memory_are_read_all_the_same(lane: Lane, database: Database) -> None:
    lane.post = Post(database, PollOptions(coalesce_seconds=0.0, burst=1_000_000))
    newest = await lane.publish(1)
    tokens = DeviceTokens(database, SigningKeys(database, MasterKey(bytes(32))), OutsideIssuers())
    await tokens.start()
    await tokens.verify(lane.token.decode())
    lane.handler = FastPoll(lane.post.poll, tokens)
    every = [b"limit=%d&wait=%d" % (limit, wait) for limit in range(1, 101) for wait in range(31)]
    assert len(every) > QUERIES_MAX
    for query in every:
        connection = taken(lane.ask(query, newest))
        if connection.waits is not None:
            lane.post.poll.abandon(connection.waits[1])
    assert lane.ask(b"limit=101", newest) is None


DATE = b"date: now\r\n"


@pytest.mark.parametrize("form", [b"%b", b'"%b"'])
async def test_an_idle_poll_is_written_at_once_just_as_the_application_would(lane: Lane, form: bytes) -> None:
    newest = await lane.publish(1)
    answer = taken(lane.ask(b"", newest)).answered.result()
    headers = b"".join(b"%b: %b\r\n" % pair for pair in answer.headers)
    written = lane.handler.at_once(b"", lane.token, form % newest, DATE)
    assert written == b"HTTP/1.1 204 No Content\r\n" + DATE + headers + b"\r\n"


async def test_nothing_else_is_answered_at_once(lane: Lane) -> None:
    newest = await lane.publish(1)
    lane.ask(b"wait=5", newest)
    ask = lane.handler.at_once
    assert ask(b"", b"another token", newest, DATE) is None
    assert ask(b"", lane.token, b"0-0", DATE) is None
    assert ask(b"wait=5", lane.token, newest, DATE) is None
    assert ask(b"never=seen", lane.token, newest, DATE) is None
    for malformed in (b'"' + newest, newest + b'"', b"W/" + newest, b""):
        assert ask(b"", lane.token, malformed, DATE) is None


async def test_what_is_not_answered_at_once_has_taken_nothing(lane: Lane) -> None:
    newest = await lane.publish(1)
    ask = lane.handler.at_once
    for _ in range(5):
        assert ask(b"", lane.token, b"0-0", DATE) is None
    assert [ask(b"", lane.token, newest, DATE) is not None for _ in range(BURST + 1)] == [True] * BURST + [False]
    assert taken(lane.ask(b"", newest)).status == 429
