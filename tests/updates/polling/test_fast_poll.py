"""Which polls the fast lane serves, and how. A poll that it leaves to the application changes nothing."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.cursor import Position
from restante.database.database import Database
from restante.delivery.log.log import EncodedEntries, LogEntry, signal_json
from restante.identity.devices.device_tokens import DeviceTokens
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.server.http.bounded_protocol import response_bytes
from restante.updates.devices import devices
from restante.updates.polling.fast_poll import QUERIES_MAX, FastPoll, signals_bytes
from restante.updates.polling.poll import PollResult
from restante.updates.polling.routes import poll_response
from restante.web.fast_lane_api import WaitOwner
from restante.web.response import ApiResponse
from tests.defaults import new_device_tokens
from tests.identity.people_and_devices import add_device, add_user
from tests.updates.poll_harness import PollCall, UpdatesHarness, header, poll_options, subjects_of

BURST = 3
DATE_LINE = b"date: Wed, 18 Nov 2026 10:00:00 GMT\r\n"


class Connection(PollCall):
    """A connection that keeps the response sent and the wait registered."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: tuple[WaitOwner, Any, float] | None = None
        self.is_deferred = False
        self.decided: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    thumbprint = None

    def date_line(self) -> bytes:
        return DATE_LINE

    def send_bytes(self, data: bytes) -> None:
        head, _, body = data.partition(b"\r\n\r\n")
        status_line, *lines = head.split(b"\r\n")
        headers = tuple((name, value) for name, _, value in (line.partition(b": ") for line in lines))
        self.send(ApiResponse(int(status_line.split()[1]), headers, body))

    def defer(self) -> None:
        self.is_deferred = True

    def accept(self) -> None:
        self.decided.set_result("accepted")

    def pass_on(self) -> None:
        self.decided.set_result("passed on")

    def wait(self, owner: WaitOwner, parked: Any, seconds: float) -> None:
        self.waits = (owner, parked, seconds)


class FastLane:
    """The handler, and a device whose token is cached."""

    def __init__(self, harness: UpdatesHarness, tokens: DeviceTokens, device_id: int, token: str) -> None:
        self.harness = harness
        self.device_id = device_id
        self.token = token.encode()
        self.tokens = tokens
        self.handler = FastPoll(harness.poll, tokens)

    def poll(
        self, query: bytes = b"", cursor: bytes | None = None, authorization: bytes | None = None
    ) -> Connection | None:
        """The connection with its response; None if the handler leaves the poll to the application."""
        headers = {b"authorization": b"Bearer " + self.token if authorization is None else authorization}
        if cursor is not None:
            headers[b"if-none-match"] = cursor
        connection = Connection()
        return connection if self.handler(query, headers, connection) else None

    async def publish(self, *subjects: Any) -> bytes:
        return await self.harness.publish(*subjects, device=self.device_id)


@pytest.fixture
async def fast_lane(database: Database) -> FastLane:
    tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
    await tokens.start()
    user_id = add_user(database)
    device_id = add_device(database, user_id)
    token = tokens.mint(user_id, device_id)
    await tokens.verify(token)
    options = poll_options(coalesce_seconds=0.0, burst=BURST, rate_per_second=0.001)
    return FastLane(UpdatesHarness(database, options), tokens, device_id, token)


def served(connection: Connection | None) -> Connection:
    assert connection is not None
    return connection


async def test_signals_are_sent(fast_lane: FastLane) -> None:
    newest = await fast_lane.publish(1, 2, 3)
    answer = await served(fast_lane.poll(b"limit=2", b"0-0")).response()
    assert subjects_of(answer) == [1, 2]
    assert subjects_of(await served(fast_lane.poll(b"cursor=0-0&limit=100")).response()) == [1, 2, 3]
    assert header(answer, b"etag") != newest


@pytest.mark.parametrize("form", [b"%b", b'"%b"', b'W/"%b"'])
async def test_idle_poll_is_answered_from_memory(fast_lane: FastLane, form: bytes) -> None:
    newest = await fast_lane.publish(1)
    connection = served(fast_lane.poll(b"", form % newest))
    assert connection.status == 204
    assert header(connection.replied.result(), b"etag") == newest


async def test_header_wins_over_the_query(fast_lane: FastLane) -> None:
    newest = await fast_lane.publish(1)
    assert served(fast_lane.poll(b"cursor=0-0", newest)).status == 204


async def test_wait_is_registered_with_the_connection(fast_lane: FastLane) -> None:
    newest = await fast_lane.publish(1)
    connection = served(fast_lane.poll(b"wait=7", newest))
    assert connection.waits is not None
    owner, parked, seconds = connection.waits
    assert (owner, seconds) == (fast_lane.harness.poll, 7)
    owner.expire(parked)
    assert connection.status == 204


async def test_existing_signal_is_sent_without_a_wait(fast_lane: FastLane) -> None:
    await fast_lane.publish(1)
    connection = served(fast_lane.poll(b"wait=7", b"0-0"))
    assert await connection.signals() == [1]


async def test_too_many_polls_are_refused(fast_lane: FastLane) -> None:
    newest = await fast_lane.publish(1)
    for _ in range(BURST):
        assert served(fast_lane.poll(b"", newest)).status == 204
    answer = served(fast_lane.poll(b"", newest)).replied.result()
    assert answer.status == 429
    assert int(header(answer, b"retry-after")) >= 1


@pytest.mark.parametrize("authorization", [b"", b"Bearer garbage", b"bearer {token}", b"{token}", b"Bearer {token} "])
async def test_unknown_token_is_left_to_the_application(fast_lane: FastLane, authorization: bytes) -> None:
    assert fast_lane.poll(authorization=authorization.replace(b"{token}", fast_lane.token)) is None


@pytest.mark.parametrize("cursor", [b"", b"1", b"a-b", b"1-1-1", b"\xb2-1", b'"1-1', b"-1", b"01-1x"])
async def test_invalid_cursor_is_left_to_the_application(fast_lane: FastLane, cursor: bytes) -> None:
    assert fast_lane.poll(b"", cursor) is None
    assert fast_lane.poll(b"cursor=" + cursor) is None


@pytest.mark.parametrize(
    "query",
    [
        *(b"limit=0", b"limit=101", b"limit=", b"limit", b"limit=-1", b"limit=1.0", b"limit=0001", b"limit=\xb2"),
        *(b"wait=31", b"wait=", b"wait=-1", b"wait=001", b"limit=1&limit=1", b"other=1", b"&", b"limit=1&"),
        *(b"limit=%31", b"limit=+1", b'cursor="1-1"', b'cursor=W/"1-1"', b"cursor=1-1&cursor=1-1"),
    ],
)
async def test_query_that_is_not_plain_is_left_to_the_application(fast_lane: FastLane, query: bytes) -> None:
    assert fast_lane.poll(query) is None
    # Polls that were left to the application have taken no token from the device's bucket.
    newest = await fast_lane.publish(1)
    assert [served(fast_lane.poll(b"", newest)).status for _ in range(BURST)] == [204] * BURST


async def test_queries_beyond_the_cache_are_parsed_too(fast_lane: FastLane, database: Database) -> None:
    fast_lane.harness = UpdatesHarness(database, poll_options(coalesce_seconds=0.0, burst=1_000_000))
    newest = await fast_lane.publish(1)
    tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
    await tokens.start()
    await tokens.verify(fast_lane.token.decode())
    fast_lane.handler = FastPoll(fast_lane.harness.poll, tokens)
    every = [b"limit=%d&wait=%d" % (limit, wait) for limit in range(1, 101) for wait in range(31)]
    assert len(every) > QUERIES_MAX
    for query in every:
        connection = served(fast_lane.poll(query, newest))
        if connection.waits is not None:
            fast_lane.harness.poll.disconnect(connection.waits[1])
    assert fast_lane.poll(b"limit=101", newest) is None


DATE = b"date: now\r\n"


@pytest.mark.parametrize("form", [b"%b", b'"%b"'])
async def test_idle_response_has_the_bytes_of_the_application(fast_lane: FastLane, form: bytes) -> None:
    newest = await fast_lane.publish(1)
    answer = served(fast_lane.poll(b"", newest)).replied.result()
    headers = b"".join(b"%b: %b\r\n" % pair for pair in answer.headers)
    written = fast_lane.handler.idle_response(b"", fast_lane.token, form % newest, DATE)
    assert written == b"HTTP/1.1 204 No Content\r\n" + DATE + headers + b"\r\n"


async def test_other_polls_get_no_idle_response(fast_lane: FastLane) -> None:
    newest = await fast_lane.publish(1)
    fast_lane.poll(b"wait=5", newest)
    idle_response = fast_lane.handler.idle_response
    assert idle_response(b"", b"another token", newest, DATE) is None
    assert idle_response(b"", fast_lane.token, b"0-0", DATE) is None
    assert idle_response(b"wait=5", fast_lane.token, newest, DATE) is None
    assert idle_response(b"never=seen", fast_lane.token, newest, DATE) is None
    for malformed in (b'"' + newest, newest + b'"', b"W/" + newest, b""):
        assert idle_response(b"", fast_lane.token, malformed, DATE) is None


async def test_poll_without_idle_response_takes_no_token(fast_lane: FastLane) -> None:
    newest = await fast_lane.publish(1)
    idle_response = fast_lane.handler.idle_response
    for _ in range(5):
        assert idle_response(b"", fast_lane.token, b"0-0", DATE) is None
    assert [idle_response(b"", fast_lane.token, newest, DATE) is not None for _ in range(BURST + 1)] == [
        True
    ] * BURST + [False]
    assert served(fast_lane.poll(b"", newest)).status == 429


async def test_first_poll_of_a_token_is_served_after_its_verification(fast_lane: FastLane) -> None:
    newest = await fast_lane.publish(1)
    fast_lane.tokens.forget_all()
    connection = served(fast_lane.poll(b"", newest))
    assert connection.is_deferred
    assert await asyncio.wait_for(connection.decided, 30) == "accepted"
    assert (await connection.response()).status == 204
    again = served(fast_lane.poll(b"", newest))
    assert not again.is_deferred
    assert again.status == 204


async def test_first_poll_may_wait(fast_lane: FastLane) -> None:
    newest = await fast_lane.publish(1)
    fast_lane.tokens.forget_all()
    connection = served(fast_lane.poll(b"wait=30", newest))
    await asyncio.wait_for(connection.decided, 30)
    assert connection.waits is not None
    await fast_lane.publish(2)
    assert subjects_of(await connection.response()) == [2]


async def test_first_poll_of_a_revoked_device_is_passed_on(fast_lane: FastLane) -> None:
    fast_lane.tokens.forget_all()
    fast_lane.harness.database.write_now(devices.revoke, fast_lane.device_id)
    connection = served(fast_lane.poll())
    assert await asyncio.wait_for(connection.decided, 30) == "passed on"
    assert not connection.is_finished


async def test_first_poll_with_an_invalid_cursor_is_passed_on(fast_lane: FastLane) -> None:
    fast_lane.tokens.forget_all()
    connection = served(fast_lane.poll(b"", b"a-b"))
    assert await asyncio.wait_for(connection.decided, 30) == "passed on"
    assert not connection.is_finished


entries_of = st.lists(
    st.builds(
        LogEntry,
        st.builds(Position, st.integers(0, 2**53), st.integers(1, 10**6)),
        st.builds(
            signal_json, st.text(min_size=1, max_size=20), st.integers(0, 2**53), st.sampled_from(["{}", '{"n":"é%b"}'])
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(entries=entries_of, interval_seconds=st.integers(0, 10**6), is_encoded=st.booleans())
def test_signals_are_the_same_bytes_as_the_response_of_the_application(
    entries: list[LogEntry], interval_seconds: int, is_encoded: bool
) -> None:
    cursor = b"%d-%d" % entries[-1].position
    encoded = EncodedEntries([b"%d-%d" % each.position for each in entries], [each.json for each in entries])
    result = PollResult(cursor, interval_seconds, encoded if is_encoded else entries)
    assert signals_bytes(result, DATE_LINE) == response_bytes(poll_response(result), DATE_LINE)
