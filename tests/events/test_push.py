"""The service at work, with real receivers: processes of their own, over real TLS."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path

import pytest

from restante.core.addresses import parse_allowed
from restante.core.backoff import Backoff
from restante.core.callback_url import parse_callback_url
from restante.core.push_outcome import PushRules
from restante.database.database import Database
from restante.events import push_queue, receivers
from restante.events.push import AUTHORIZATION_PURPOSE, Pusher, PushOptions
from restante.events.push_queue import Holder
from restante.events.receiver_client import ClientOptions, ReceiverConnection
from restante.identity.master_key import MasterKey
from tests.conftest import ManualClock
from tests.events.pushing import acknowledge, add_client, add_event, event_of, receiver_of, token_of
from tests.events.receiver_process import PATIENCE_SECONDS, ReceiverProcess, receiving
from tests.events.tls_files import TlsFiles, make_tls_files

KEY = MasterKey(bytes(range(32)))
RULES = PushRules(Backoff(1.0, 60.0, 4), give_up_seconds=1000, circuit_failures=3, circuit_seconds=30)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def receivers_of(tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ReceiverProcess]]:
    """One for the tests of each engine: it writes down by its paths what it was sent, and they use the same ones."""
    with ExitStack() as opened:
        yield cache(
            lambda _engine: opened.enter_context(receiving(tls, tmp_path_factory.mktemp("receiver") / "record"))
        )


@pytest.fixture
def receiver(receivers_of: Callable[[str], ReceiverProcess], engine_name: str) -> ReceiverProcess:
    return receivers_of(engine_name)


def options(tls: TlsFiles, *, timeout_seconds: float = 20.0, receivers_max: int = 8) -> PushOptions:
    loopback = parse_allowed(["127.0.0.0/8", "::1"])
    client = ClientOptions(timeout_seconds=timeout_seconds, allowed=loopback, ca_file=str(tls.authority))
    return PushOptions(client, RULES, receivers_max)


@pytest.fixture
async def pusher(database: Database, tls: TlsFiles) -> AsyncIterator[Pusher]:
    pusher = Pusher(database, KEY, options(tls), chance=lambda: 0.0)
    yield pusher
    pusher.close()


def add_receiver(database: Database, url: str, profile: receivers.Profile = "open-banking") -> int:
    client = add_client(database)
    database.write_now(receivers.put, client, profile, url)
    return client


def is_delivered(pusher: Pusher, count: int) -> bool:
    return pusher.totals.delivered == count


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_events_arrive_in_order_as_they_are_and_are_acknowledged(
    database: Database, pusher: Pusher, receiver: ReceiverProcess
) -> None:
    path = "/answer/202"
    client = add_receiver(database, receiver.url(path))
    jtis = [add_event(database, client) for _ in range(20)]
    await pusher.run_once()
    assert receiver.bodies(path) == [token_of(jti) for jti in jtis]
    assert {event_of(database, jti)["status"] for jti in jtis} == {"acknowledged"}
    assert pusher.totals.delivered == 20
    assert len({asked["connection"] for asked in receiver.asked(path)}) == 1


async def test_a_receiver_that_fails_at_first_is_tried_again_in_order(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, clock: ManualClock
) -> None:
    path = "/answer/503,429,202"
    client = add_receiver(database, receiver.url(path))
    first, second = add_event(database, client), add_event(database, client)
    for _ in range(3):
        await pusher.run_once()
        clock.advance(60)
    tokens = [token_of(jti) for jti in (first, first, first, second)]
    assert receiver.bodies(path) == tokens
    assert (pusher.totals.delivered, pusher.totals.failed) == (2, 2)
    assert receiver_of(database, client)["failures"] == 0


@pytest.mark.parametrize("path", ["/redirect", "/hang-up", "/garbage", "/answer/200", "/answer/204", "/answer/404"])
async def test_whatever_is_not_202_leaves_the_event_to_polls(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, path: str
) -> None:
    client = add_receiver(database, receiver.url(path))
    jti = add_event(database, client)
    await pusher.run_once()
    event = event_of(database, jti)
    assert (event["status"], event["push_attempts"]) == ("ready", 1)
    assert event["push_problem"]
    assert receiver_of(database, client)["failures"] == 1


async def test_what_was_acknowledged_meanwhile_is_not_pushed_again(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, clock: ManualClock
) -> None:
    path = "/answer/500"
    jti = add_event(database, add_receiver(database, receiver.url(path)))
    await pusher.run_once()
    acknowledge(database, jti)
    clock.advance(60)
    await pusher.run_once()
    assert receiver.bodies(path) == [token_of(jti)]


async def test_a_receiver_that_says_what_is_wrong_is_heard(
    database: Database, pusher: Pusher, receiver: ReceiverProcess
) -> None:
    client = add_receiver(database, receiver.url("/error"), "shared-signals")
    jti = add_event(database, client, profile="shared-signals", stream=1)
    await pusher.run_once()
    event = event_of(database, jti)
    assert (event["status"], event["err"], event["err_description"]) == ("errored", "invalid_issuer", "who are you?")


async def test_who_must_be_told_who_we_are_is_told(
    database: Database, pusher: Pusher, receiver: ReceiverProcess
) -> None:
    sealed = KEY.seal(b"Bearer secret", AUTHORIZATION_PURPOSE)
    client = add_client(database)
    path = "/answer/202,202"
    database.write_now(receivers.put, client, "shared-signals", receiver.url(path), sealed)
    add_event(database, client, profile="shared-signals", stream=1)
    await pusher.run_once()
    assert [asked["headers"]["authorization"] for asked in receiver.asked(path)] == ["Bearer secret"]


async def test_a_silent_receiver_does_not_hold_up_the_others(
    database: Database, tls: TlsFiles, receiver: ReceiverProcess
) -> None:
    pusher = Pusher(database, KEY, options(tls, timeout_seconds=600, receivers_max=3))
    silent = add_event(database, add_receiver(database, receiver.url("/silent")))
    path = "/answer/202,202,202"
    jtis = [add_event(database, add_receiver(database, receiver.url(path))) for _ in range(10)]
    running = asyncio.create_task(pusher.run())
    await until(lambda: pusher.totals.delivered == 10)
    assert {event_of(database, jti)["status"] for jti in jtis} == {"acknowledged"}
    assert event_of(database, silent)["status"] == "ready"
    await until(lambda: pusher.sending_count == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    pusher.close()


async def test_the_service_sends_what_it_is_rung_for_and_finishes_what_it_is_at(
    database: Database, tls: TlsFiles, receiver: ReceiverProcess
) -> None:
    pusher = Pusher(database, KEY, options(tls))
    running = asyncio.create_task(pusher.run())
    client = add_receiver(database, receiver.url("/answer/202,202,202,202"))
    for number in range(1, 4):
        add_event(database, client)
        pusher.ring()
        await until(partial(is_delivered, pusher, number))
    pusher.stop()
    await asyncio.wait_for(running, PATIENCE_SECONDS)
    assert pusher.sending_count == 0
    pusher.close()


async def test_an_event_that_was_answered_and_not_written_down_is_sent_again_the_same(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, clock: ManualClock
) -> None:
    """As after a kill between the answer and its commit: the claim runs out, another process sends the same bytes."""
    path = "/answer/202,202,202,202,202"
    jti = add_event(database, add_receiver(database, receiver.url(path)))
    (claimed,) = database.write_now(push_queue.claim, Holder("the dead", 60_000), 1)
    connection = ReceiverConnection(pusher.client, parse_callback_url(claimed.url))
    assert (await connection.post(claimed.token.encode(), {})).status == 202
    connection.close()
    await pusher.run_once()
    assert receiver.bodies(path) == [token_of(jti)]
    clock.advance(60)
    await pusher.run_once()
    assert receiver.bodies(path) == [token_of(jti)] * 2
    assert event_of(database, jti)["status"] == "acknowledged"


async def test_a_receiver_that_comes_back_gets_everything(
    database: Database, tls: TlsFiles, tmp_path: Path, clock: ManualClock
) -> None:
    pusher = Pusher(database, KEY, options(tls), chance=lambda: 0.0)
    with receiving(tls, tmp_path / "before") as gone:
        port = gone.port
    client = add_receiver(database, f"https://localhost:{port}/answer/202")
    jtis = [add_event(database, client) for _ in range(3)]
    for _ in range(3):
        await pusher.run_once()
        clock.now_ms = receiver_of(database, client)["retry_at"]
    assert RULES.circuit(receiver_of(database, client)["failures"]) == "open"
    with receiving(tls, tmp_path / "after", port=port) as back:
        await pusher.run_once()
        assert back.bodies("/answer/202") == [token_of(jti) for jti in jtis]
    pusher.close()
