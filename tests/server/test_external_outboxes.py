"""The whole path of a signal: from a commit in the database of an application to the log of a device."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from restante.core.backoff import PollBackoff
from restante.database.database import Database
from restante.database.external.external_database import ExternalAddress
from restante.outbox import enqueue
from restante.server.background_services import kept_running
from restante.server.config.url_setting_types import ExternalAddresses
from restante.server.external_outboxes import ExternalOutboxes
from restante.web.component import HistogramValue
from tests.defaults import append_all_signals
from tests.delivery.external_databases import (
    ApplicationDatabase,
    end_listeners,
    mysql_application,
    postgres_application,
    sqlite_application,
)
from tests.delivery.outbox.test_dispatcher import OPTIONS
from tests.delivery.rows import add_device, published
from tests.server.live_server import LiveServer
from tests.services.mariadb import MariaDb
from tests.services.postgres import PostgresServer

TIMEOUT_SECONDS = 60.0
NEVER_SECONDS = 3600.0
WRITERS = 32
# The dispatcher never polls: it publishes only after a notification of the database.
NOTIFIED_ONLY = PollBackoff(
    idle_seconds=NEVER_SECONDS, idle_seconds_max=NEVER_SECONDS, retry_seconds=0.01, retry_seconds_max=0.1
)


@pytest.fixture
def shop(tmp_path: Path) -> ApplicationDatabase:
    return sqlite_application(tmp_path)


@pytest.fixture
def server(tmp_path: Path, shop: ApplicationDatabase) -> Iterator[LiveServer]:
    gone = ExternalAddress("gone", "sqlite", "sqlite:///nowhere/at/all.db")
    server = LiveServer(tmp_path, outbox=ExternalAddresses([shop.address, gone]), outbox_interval_seconds=0.05)
    yield server
    server.close()


def test_signal_in_an_external_outbox_reaches_the_log_of_its_device(
    server: LiveServer, shop: ApplicationDatabase
) -> None:
    device_id = server.node.database.write_now(add_device)
    with closing(shop.connect()) as conn:
        enqueue(conn, device_id, {"type": "x", "ref": {"about": "a tariff"}})
        conn.commit()
    server.wait_until(lambda: server.node.updates.poll.waiters.known.get(device_id) is not None)
    assert published(server.node.database, device_id) == ["a tariff"]
    server.wait_until(lambda: delivered_count(server, shop) == 1)
    assert shop.rows() == [(1, "DELIVERED")]


def metric_values(outboxes: ExternalOutboxes) -> dict[tuple[str, ...], float]:
    samples = list(outboxes.metrics())
    return {
        (sample.name, *sample.labels): sample.value
        for sample in samples
        if not isinstance(sample.value, HistogramValue)
    }


def delivered_count(server: LiveServer, shop: ApplicationDatabase) -> float:
    return metric_values(server.node.outbox.external)["restante_outbox_source_delivered", shop.address.name]


def test_server_with_an_unavailable_outbox_is_ready_and_reports_it(server: LiveServer) -> None:
    server.wait_until(lambda: server.node.outbox.external.unavailable() == ["gone"])
    base_url = f"http://127.0.0.1:{server.fast_port}"
    ready = httpx.get(f"{base_url}/readyz").json()["data"]
    assert (ready["status"], ready["away"]) == ("ready", ["outbox gone"])
    metrics = httpx.get(f"{base_url}/metrics").text
    assert 'restante_outbox_source_up{source="gone"} 0.0' in metrics
    assert 'restante_outbox_source_up{source="shop"} 1.0' in metrics


def test_each_external_outbox_has_a_source_and_a_dispatcher(server: LiveServer) -> None:
    assert list(server.node.outbox.sources()) == ["server", "shop", "gone"]
    assert [service.name for service in server.node.outbox.external.services()] == [
        "dispatcher of shop",
        "dispatcher of gone",
    ]


class CommitWatcher:
    """Waits for a condition, and checks it again after each commit of the server's own database."""

    def __init__(self, database: Database) -> None:
        self._committed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def handle(_events: list[object]) -> None:
            loop.call_soon_threadsafe(self._committed.set)

        database.on_commit(handle)

    async def wait_until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not await asyncio.to_thread(condition):
                await self._committed.wait()
                self._committed.clear()


@asynccontextmanager
async def dispatching(
    database: Database, *applications: ApplicationDatabase, pace: PollBackoff = NOTIFIED_ONLY
) -> AsyncIterator[ExternalOutboxes]:
    addresses = [application.address for application in applications]
    with closing(ExternalOutboxes(addresses, database, OPTIONS, pace, append_all_signals, 7)) as outboxes:
        async with kept_running(list(outboxes.services()), lambda: TIMEOUT_SECONDS):
            yield outboxes


def is_listening(outboxes: ExternalOutboxes) -> bool:
    return metric_values(outboxes)["restante_outbox_source_listening", "shop"] == 1.0


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


def enqueue_signals(
    application: ApplicationDatabase, device_id: int, *abouts: object, is_committed: bool = True
) -> None:
    with closing(application.connect()) as conn:
        for about in abouts:
            enqueue(conn, device_id, {"type": "x", "ref": {"about": about}})
        if is_committed:
            conn.commit()
        else:
            conn.rollback()


async def test_commit_in_postgresql_wakes_the_dispatcher_without_polling(
    database: Database, postgres: PostgresServer
) -> None:
    shop = postgres_application(postgres, notify=True)
    device_id = await database.write(add_device)
    commits = CommitWatcher(database)
    async with dispatching(database, shop) as outboxes:
        await wait_until(lambda: is_listening(outboxes))
        await asyncio.to_thread(enqueue_signals, shop, device_id, "never", is_committed=False)
        await asyncio.to_thread(enqueue_signals, shop, device_id, 1, 2)
        await commits.wait_until(lambda: published(database, device_id) == [1, 2])
        await asyncio.to_thread(enqueue_signals, shop, device_id, 3)
        await commits.wait_until(lambda: published(database, device_id) == [1, 2, 3])
    assert [status for _, status in shop.rows()] == ["DELIVERED"] * 3


async def test_commit_while_the_listener_is_disconnected_is_found_after_it_reconnects(
    database: Database, postgres: PostgresServer
) -> None:
    shop = postgres_application(postgres, notify=True)
    device_id = await database.write(add_device)
    commits = CommitWatcher(database)
    async with dispatching(database, shop) as outboxes:
        await wait_until(lambda: is_listening(outboxes))
        for abouts in ([1], [1, 2], [1, 2, 3]):
            await asyncio.to_thread(_end_listeners_and_enqueue, postgres, shop, device_id, abouts[-1])
            await commits.wait_until(partial(_are_published, database, device_id, abouts))
    assert published(database, device_id) == [1, 2, 3]


def _are_published(database: Database, device_id: int, abouts: list[int]) -> bool:
    return published(database, device_id) == abouts


def _end_listeners_and_enqueue(postgres: PostgresServer, shop: ApplicationDatabase, device_id: int, about: int) -> None:
    end_listeners(postgres)
    enqueue_signals(shop, device_id, about)


async def test_two_nodes_publish_each_signal_once_in_order_without_polling(
    database: Database, postgres: PostgresServer
) -> None:
    """Writers keep their transactions open for a while, so that ids are committed out of order."""
    shop = postgres_application(postgres, notify=True)
    devices = [await database.write(add_device) for _ in range(8)]
    commits = CommitWatcher(database)
    signals_each = 5
    async with dispatching(database, shop) as first, dispatching(database, shop) as second:
        await wait_until(lambda: is_listening(first) and is_listening(second))
        await asyncio.gather(
            *(
                asyncio.to_thread(_write_slowly, shop, devices[number % 8], number, signals_each)
                for number in range(WRITERS)
            )
        )
        await commits.wait_until(
            lambda: sum(len(published(database, device)) for device in devices) == WRITERS * signals_each
        )
    for number in range(WRITERS):
        abouts = [about for about in published(database, devices[number % 8]) if about[0] == number]
        assert abouts == [[number, count] for count in range(signals_each)]
    assert {status for _, status in shop.rows()} == {"DELIVERED"}


def _write_slowly(shop: ApplicationDatabase, device_id: int, number: int, count: int) -> None:
    rng = random.Random(number)
    with closing(shop.connect()) as conn:
        for about in range(count):
            enqueue(conn, device_id, {"type": "x", "ref": {"about": (number, about)}})
            time.sleep(rng.uniform(0, 0.2))
            conn.commit()


def _error_count(outboxes: ExternalOutboxes, source: str) -> float:
    return metric_values(outboxes)["restante_outbox_source_errors", source]


async def test_twenty_outboxes_are_dispatched_at_once_each_in_its_order(database: Database, tmp_path: Path) -> None:
    shops = []
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        shop = sqlite_application(tmp_path / str(number))
        shops.append(replace(shop, address=ExternalAddress(f"shop {number}", "sqlite", shop.address.url)))
    device_id = await database.write(add_device)
    for number, shop in enumerate(shops):
        enqueue_signals(shop, device_id, [number, 1], [number, 2])
    commits = CommitWatcher(database)
    async with dispatching(database, *shops):
        await commits.wait_until(lambda: len(published(database, device_id)) == 40)
    for number, shop in enumerate(shops):
        assert [about for about in published(database, device_id) if about[0] == number] == [[number, 1], [number, 2]]
        assert {status for _, status in shop.rows()} == {"DELIVERED"}


async def test_outbox_unavailable_at_start_blocks_no_other_and_is_dispatched_later(
    database: Database, tmp_path: Path, own_mariadb: MariaDb
) -> None:
    shop, late = sqlite_application(tmp_path), mysql_application(own_mariadb, "late")
    late = replace(late, address=ExternalAddress("late", "mysql", late.address.url))
    device_id = await database.write(add_device)
    enqueue_signals(late, device_id, 2)
    await asyncio.to_thread(own_mariadb.stop)
    commits = CommitWatcher(database)
    pace = PollBackoff(idle_seconds_max=0.1, retry_seconds=0.01, retry_seconds_max=0.1)
    with capture_logs() as lines:
        async with dispatching(database, shop, late, pace=pace) as outboxes:
            await wait_until(lambda: _error_count(outboxes, "late") >= 3)
            assert outboxes.unavailable() == ["late"]
            await asyncio.to_thread(enqueue_signals, shop, device_id, 1)
            await commits.wait_until(lambda: published(database, device_id) == [1])
            await asyncio.to_thread(own_mariadb.start)
            await commits.wait_until(lambda: published(database, device_id) == [1, 2])
            await wait_until(lambda: outboxes.unavailable() == [])
            await wait_until(lambda: any(line["event"].endswith("passes succeed again") for line in lines))
    messages = [line["event"].removeprefix("[device-outbox] ") for line in lines if line.get("source") == "late"]
    assert [message for message in messages if "pass" in message] == [
        "the pass failed, retrying",
        "passes succeed again",
    ]
