"""The push service with real receiver processes over real TLS."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path

import pytest

from restante.core.backoff import Backoff
from restante.core.events.addresses import parse_allowed
from restante.core.events.callback_url import parse_callback_url
from restante.core.events.push_outcome import PushRules
from restante.database.database import Database
from restante.events.publishing import client_status
from restante.events.publishing.client_status import ErrorReason
from restante.events.push import push_queue, receivers
from restante.events.push.push_queue import LeaseHolder
from restante.events.push.pusher import AUTHORIZATION_PURPOSE, Pusher, PushOptions
from restante.events.push.receiver_connection import ReceiverConnection
from restante.identity.master_key import MasterKey
from tests.conftest import ManualClock
from tests.events.default_options import receiver_client_options
from tests.events.inbox_fixture import token_of
from tests.events.push_fixture import (
    acknowledge,
    add_client,
    add_event,
    client_id_of,
    event_of,
    receiver_of,
)
from tests.events.receiver_process import TIMEOUT_SECONDS, ReceiverProcess, receiving
from tests.events.tls_files import TlsFiles

KEY = MasterKey(bytes(range(32)))
RULES = PushRules(Backoff(1.0, 60.0, 4), give_up_seconds=1000, circuit_failures=3, circuit_seconds=30)


@pytest.fixture(scope="module")
def receivers_of(tls: TlsFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], ReceiverProcess]]:
    """One receiver process for each engine: records are kept by path, and both engines use the same paths."""
    with ExitStack() as opened:
        yield cache(
            lambda _engine: opened.enter_context(receiving(tls, tmp_path_factory.mktemp("receiver") / "record"))
        )


@pytest.fixture
def receiver(receivers_of: Callable[[str], ReceiverProcess], engine_name: str) -> ReceiverProcess:
    return receivers_of(engine_name)


def options(tls: TlsFiles, *, timeout_seconds: float = 20.0, receivers_max: int = 8) -> PushOptions:
    loopback = parse_allowed(["127.0.0.0/8", "::1"])
    client = receiver_client_options(timeout_seconds=timeout_seconds, allowed=loopback, ca_file=str(tls.authority))
    return PushOptions(client, RULES, receivers_max, "0015800001041RHAAY")


@pytest.fixture
async def pusher(database: Database, tls: TlsFiles) -> AsyncIterator[Pusher]:
    pusher = Pusher(database, KEY, options(tls), chance=lambda: 0.0)
    yield pusher
    pusher.close()


def add_receiver(database: Database, url: str, profile: receivers.Profile = "open-banking") -> int:
    client = add_client(database)
    database.write_now(receivers.set_receiver, client, profile, url)
    return client


def is_delivered(pusher: Pusher, count: int) -> bool:
    return pusher.counters.delivered == count


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def test_events_are_pushed_in_order_and_acknowledged(
    database: Database, pusher: Pusher, receiver: ReceiverProcess
) -> None:
    path = "/status/202"
    client = add_receiver(database, receiver.url(path))
    jtis = [add_event(database, client) for _ in range(20)]
    await pusher.run_once()
    assert receiver.bodies(path) == [token_of(jti) for jti in jtis]
    assert {event_of(database, jti)["status"] for jti in jtis} == {"acknowledged"}
    assert pusher.counters.delivered == 20
    assert len({request["connection"] for request in receiver.requests(path)}) == 1


async def test_failing_receiver_is_retried_in_order(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, clock: ManualClock
) -> None:
    path = "/status/503,429,202"
    client = add_receiver(database, receiver.url(path))
    first, second = add_event(database, client), add_event(database, client)
    for _ in range(3):
        await pusher.run_once()
        clock.advance(60)
    tokens = [token_of(jti) for jti in (first, first, first, second)]
    assert receiver.bodies(path) == tokens
    assert (pusher.counters.delivered, pusher.counters.failed) == (2, 2)
    assert receiver_of(database, client)["failures"] == 0


@pytest.mark.parametrize("path", ["/redirect", "/hang-up", "/garbage", "/status/200", "/status/204", "/status/404"])
async def test_event_without_202_stays_available_to_polls(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, path: str
) -> None:
    client = add_receiver(database, receiver.url(path))
    jti = add_event(database, client)
    await pusher.run_once()
    event = event_of(database, jti)
    assert (event["status"], event["push_attempts"]) == ("ready", 1)
    assert event["push_problem"]
    assert receiver_of(database, client)["failures"] == 1


async def test_acknowledged_event_is_not_pushed_again(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, clock: ManualClock
) -> None:
    path = "/status/500"
    jti = add_event(database, add_receiver(database, receiver.url(path)))
    await pusher.run_once()
    acknowledge(database, jti)
    clock.advance(60)
    await pusher.run_once()
    assert receiver.bodies(path) == [token_of(jti)]


@pytest.mark.parametrize(
    ("profile", "media_type"),
    [("shared-signals", "application/secevent+jwt"), ("open-banking", "application/jwt")],
)
async def test_content_type_depends_on_the_profile(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, profile: receivers.Profile, media_type: str
) -> None:
    """A receiver of RFC 8935 refuses any media type other than its own."""
    path = f"/media/{media_type}"
    client = add_receiver(database, receiver.url(path), profile)
    jti = add_event(database, client, profile=profile, stream=1 if profile == "shared-signals" else None)
    await pusher.run_once()
    assert event_of(database, jti)["status"] == "acknowledged"
    assert [request["headers"]["accept"] for request in receiver.requests(path)] == ["application/json"]


@pytest.mark.parametrize(
    ("profile", "financial_id"), [("open-banking", "0015800001041RHAAY"), ("shared-signals", None)]
)
async def test_financial_id_is_sent_with_real_time_notifications(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, profile: receivers.Profile, financial_id: str | None
) -> None:
    path = f"/status/202?{profile}"
    client = add_receiver(database, receiver.url(path), profile)
    add_event(database, client, profile=profile, stream=1 if profile == "shared-signals" else None)
    await pusher.run_once()
    assert [request["headers"].get("x-fapi-financial-id") for request in receiver.requests(path)] == [financial_id]


async def test_error_body_ends_the_event_as_errored_for_operators(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, clock: ManualClock
) -> None:
    path = "/error"
    client = add_receiver(database, receiver.url(path), "shared-signals")
    before = len(receiver.requests(path))
    jti = add_event(database, client, profile="shared-signals", stream=1)
    for _ in range(3):
        await pusher.run_once()
        clock.advance(3600)
    assert len(receiver.requests(path)) == before + 1
    assert (pusher.counters.refused, pusher.counters.given_up) == (1, 0)
    event = event_of(database, jti)
    assert (event["status"], event["err"], event["err_description"]) == ("errored", "invalid_issuer", "who are you?")
    assert (event["push_attempts"], event["push_at"], event["push_problem"]) == (1, None, "response status 400")
    status = database.read_now(client_status.show, client_id_of(database, client))
    assert (status.errored, status.waiting) == (1, 0)
    assert status.reasons == [ErrorReason("invalid_issuer", 1, "who are you?")]
    assert [(each.failures, each.problem) for each in status.receivers] == [(0, "response status 400")]


async def test_authorization_header_is_sent(database: Database, pusher: Pusher, receiver: ReceiverProcess) -> None:
    sealed = KEY.seal(b"Bearer secret", AUTHORIZATION_PURPOSE)
    client = add_client(database)
    path = "/status/202,202"
    database.write_now(receivers.set_receiver, client, "shared-signals", receiver.url(path), sealed)
    add_event(database, client, profile="shared-signals", stream=1)
    await pusher.run_once()
    assert [request["headers"]["authorization"] for request in receiver.requests(path)] == ["Bearer secret"]


async def test_silent_receiver_does_not_delay_others(
    database: Database, tls: TlsFiles, receiver: ReceiverProcess
) -> None:
    pusher = Pusher(database, KEY, options(tls, timeout_seconds=600, receivers_max=3))
    silent = add_event(database, add_receiver(database, receiver.url("/silent")))
    path = "/status/202,202,202"
    jtis = [add_event(database, add_receiver(database, receiver.url(path))) for _ in range(10)]
    running = asyncio.create_task(pusher.run())
    await wait_until(lambda: pusher.counters.delivered == 10)
    assert {event_of(database, jti)["status"] for jti in jtis} == {"acknowledged"}
    assert event_of(database, silent)["status"] == "ready"
    await wait_until(lambda: pusher.sending_count == 1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    pusher.close()


async def test_service_sends_when_woken_and_finishes_before_it_stops(
    database: Database, tls: TlsFiles, receiver: ReceiverProcess
) -> None:
    pusher = Pusher(database, KEY, options(tls))
    running = asyncio.create_task(pusher.run())
    client = add_receiver(database, receiver.url("/status/202,202,202,202"))
    for number in range(1, 4):
        add_event(database, client)
        pusher.wake()
        await wait_until(partial(is_delivered, pusher, number))
    pusher.stop()
    await asyncio.wait_for(running, TIMEOUT_SECONDS)
    assert pusher.sending_count == 0
    pusher.close()


async def test_unrecorded_delivery_is_sent_again_with_the_same_bytes(
    database: Database, pusher: Pusher, receiver: ReceiverProcess, clock: ManualClock
) -> None:
    """As after a kill between response and commit: the lease expires, and another process sends the same bytes."""
    path = "/status/202,202,202,202,202"
    jti = add_event(database, add_receiver(database, receiver.url(path)))
    (delivery,) = database.write_now(push_queue.acquire, LeaseHolder("the dead", 60_000), 1)
    connection = ReceiverConnection(pusher.client, parse_callback_url(delivery.url))
    assert (await connection.post(delivery.token.encode(), {})).status == 202
    connection.close()
    await pusher.run_once()
    assert receiver.bodies(path) == [token_of(jti)]
    clock.advance(60)
    await pusher.run_once()
    assert receiver.bodies(path) == [token_of(jti)] * 2
    assert event_of(database, jti)["status"] == "acknowledged"


async def test_receiver_gets_all_events_when_it_returns(
    database: Database, tls: TlsFiles, tmp_path: Path, clock: ManualClock
) -> None:
    pusher = Pusher(database, KEY, options(tls), chance=lambda: 0.0)
    with receiving(tls, tmp_path / "before") as before:
        port = before.port
    client = add_receiver(database, f"https://localhost:{port}/status/202")
    jtis = [add_event(database, client) for _ in range(3)]
    for _ in range(3):
        await pusher.run_once()
        clock.now_ms = receiver_of(database, client)["retry_at"]
    assert RULES.circuit_state(receiver_of(database, client)["failures"]) == "open"
    with receiving(tls, tmp_path / "after", port=port) as after:
        await pusher.run_once()
        assert after.bodies("/status/202") == [token_of(jti) for jti in jtis]
    pusher.close()
