"""The whole way: an application's commit in a database of its own, a device's poll at the server."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from restante.core.pace import Pace
from restante.database.database import Database
from restante.database.outside import OutsideAddress
from restante.delivery import log
from restante.delivery.dispatcher import DispatcherOptions
from restante.outbox import enqueue
from restante.server.outside_outboxes import OutsideOutboxes
from restante.server.outside_setting_kinds import OutsideAddresses
from restante.server.services import kept_running
from tests.delivery.outside import Place, end_listeners, in_mysql, in_postgres, in_sqlite
from tests.delivery.rows import add_device, published
from tests.server.serving import Served
from tests.services.mariadb import MariaDb
from tests.services.postgres import PostgresServer

SOON = 60.0
NEVER = 3600.0
WRITERS = 32
# Nothing is found by looking: what is published, somebody has rung for.
BY_SIGNAL_ALONE = Pace(idle_seconds=NEVER, idle_seconds_max=NEVER, away_seconds=0.01, away_seconds_max=0.1)


@pytest.fixture
def shop(tmp_path: Path) -> Place:
    return in_sqlite(tmp_path)


@pytest.fixture
def served(tmp_path: Path, shop: Place) -> Iterator[Served]:
    gone = OutsideAddress("gone", "sqlite", "sqlite:///nowhere/at/all.db")
    served = Served(tmp_path, outbox=OutsideAddresses([shop.address, gone]), outbox_interval_seconds=0.05)
    yield served
    served.close()


def test_a_signal_committed_elsewhere_reaches_the_devices_log(served: Served, shop: Place) -> None:
    device_id = served.node.database.write_now(add_device)
    with closing(shop.connect()) as conn:
        enqueue(conn, device_id, {"type": "x", "ref": {"about": "a tariff"}})
        conn.commit()
    served.until(lambda: served.node.poll.bell.known.get(device_id) is not None)
    assert published(served.node.database, device_id) == ["a tariff"]
    served.until(lambda: delivered(served, shop) == 1)
    assert shop.rows() == [(1, "DELIVERED")]


def delivered(served: Served, shop: Place) -> float:
    values = served.node.outside_outboxes.values()
    return next(
        value for metric, name, value in values if (metric, name) == ("restante_outbox_source_delivered", "shop")
    )


def test_one_that_is_away_is_said_and_is_no_reason_not_to_serve(served: Served) -> None:
    served.until(lambda: served.node.outside_outboxes.away() == ["gone"])
    base = f"http://127.0.0.1:{served.fast_port}"
    ready = httpx.get(f"{base}/readyz").json()["data"]
    assert (ready["status"], ready["away"]) == ("ready", ["outbox gone"])
    metrics = httpx.get(f"{base}/metrics").text
    assert 'restante_outbox_source_up{source="gone"} 0.0' in metrics
    assert 'restante_outbox_source_up{source="shop"} 1.0' in metrics


def test_each_is_a_source_and_a_service(served: Served) -> None:
    assert list(served.node.sources()) == ["server", "shop", "gone"]
    assert [service.name for service in served.node.outside_outboxes.services()] == [
        "dispatcher of shop",
        "dispatcher of gone",
    ]


class Commits:
    """Lets a test wait for what the server's own database has by now."""

    def __init__(self, database: Database) -> None:
        self._committed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hear(_events: list[object]) -> None:
            loop.call_soon_threadsafe(self._committed.set)

        database.on_commit(hear)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(SOON):
            while not await asyncio.to_thread(is_so):
                await self._committed.wait()
                self._committed.clear()


@asynccontextmanager
async def draining(database: Database, *places: Place, pace: Pace = BY_SIGNAL_ALONE) -> AsyncIterator[OutsideOutboxes]:
    addresses = [place.address for place in places]
    with closing(OutsideOutboxes(addresses, database, DispatcherOptions(), pace, log.append_all, 7)) as outboxes:
        async with kept_running(list(outboxes.services()), SOON):
            yield outboxes


def is_listening(outboxes: OutsideOutboxes) -> bool:
    return ("restante_outbox_source_listening", "shop", 1.0) in list(outboxes.values())


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not is_so():
            await asyncio.sleep(0.001)


def send(place: Place, device_id: int, *abouts: object, is_committed: bool = True) -> None:
    with closing(place.connect()) as conn:
        for about in abouts:
            enqueue(conn, device_id, {"type": "x", "ref": {"about": about}})
        if is_committed:
            conn.commit()
        else:
            conn.rollback()


async def test_on_postgresql_a_commit_is_heard_and_not_looked_for(database: Database, postgres: PostgresServer) -> None:
    shop = in_postgres(postgres, notify=True)
    device_id = await database.write(add_device)
    commits = Commits(database)
    async with draining(database, shop) as outboxes:
        await until(lambda: is_listening(outboxes))
        await asyncio.to_thread(send, shop, device_id, "never", is_committed=False)
        await asyncio.to_thread(send, shop, device_id, 1, 2)
        await commits.until(lambda: published(database, device_id) == [1, 2])
        await asyncio.to_thread(send, shop, device_id, 3)
        await commits.until(lambda: published(database, device_id) == [1, 2, 3])
    assert [status for _, status in shop.rows()] == ["DELIVERED"] * 3


async def test_what_is_committed_while_nobody_listens_is_found_when_somebody_does_again(
    database: Database, postgres: PostgresServer
) -> None:
    shop = in_postgres(postgres, notify=True)
    device_id = await database.write(add_device)
    commits = Commits(database)
    async with draining(database, shop) as outboxes:
        await until(lambda: is_listening(outboxes))
        for sent in ([1], [1, 2], [1, 2, 3]):
            await asyncio.to_thread(_end_listeners_and_send, postgres, shop, device_id, sent[-1])
            await commits.until(partial(_are_published, database, device_id, sent))
    assert published(database, device_id) == [1, 2, 3]


def _are_published(database: Database, device_id: int, abouts: list[int]) -> bool:
    return published(database, device_id) == abouts


def _end_listeners_and_send(postgres: PostgresServer, shop: Place, device_id: int, about: int) -> None:
    end_listeners(postgres)
    send(shop, device_id, about)


async def test_by_signal_alone_two_nodes_skip_and_double_nothing(database: Database, postgres: PostgresServer) -> None:
    """Writers hold their transactions open for a while: ids are committed out of their order."""
    shop = in_postgres(postgres, notify=True)
    devices = [await database.write(add_device) for _ in range(8)]
    commits = Commits(database)
    each = 5
    async with draining(database, shop) as first, draining(database, shop) as second:
        await until(lambda: is_listening(first) and is_listening(second))
        await asyncio.gather(
            *(asyncio.to_thread(_write, shop, devices[number % 8], number, each) for number in range(WRITERS))
        )
        await commits.until(lambda: sum(len(published(database, device)) for device in devices) == WRITERS * each)
    for number in range(WRITERS):
        own = [about for about in published(database, devices[number % 8]) if about[0] == number]
        assert own == [[number, count] for count in range(each)]
    assert {status for _, status in shop.rows()} == {"DELIVERED"}


def _write(shop: Place, device_id: int, number: int, count: int) -> None:
    chance = random.Random(number)
    with closing(shop.connect()) as conn:
        for about in range(count):
            enqueue(conn, device_id, {"type": "x", "ref": {"about": (number, about)}})
            time.sleep(chance.uniform(0, 0.2))
            conn.commit()


def _errors(outboxes: OutsideOutboxes, source: str) -> float:
    values = {(metric, name): value for metric, name, value in outboxes.values()}
    return values["restante_outbox_source_errors", source]


async def test_any_number_of_outboxes_at_once(database: Database, tmp_path: Path) -> None:
    shops = []
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        shop = in_sqlite(tmp_path / str(number))
        shops.append(shop._replace(address=OutsideAddress(f"shop {number}", "sqlite", shop.address.url)))
    device_id = await database.write(add_device)
    for number, shop in enumerate(shops):
        send(shop, device_id, [number, 1], [number, 2])
    commits = Commits(database)
    async with draining(database, *shops):
        await commits.until(lambda: len(published(database, device_id)) == 40)
    for number, shop in enumerate(shops):
        assert [about for about in published(database, device_id) if about[0] == number] == [[number, 1], [number, 2]]
        assert {status for _, status in shop.rows()} == {"DELIVERED"}


async def test_one_that_is_away_at_the_start_disturbs_no_other_and_is_drained_when_it_comes(
    database: Database, tmp_path: Path, mariadb_alone: MariaDb
) -> None:
    shop, late = in_sqlite(tmp_path), in_mysql(mariadb_alone, "late")
    late = late._replace(address=OutsideAddress("late", "mysql", late.address.url))
    device_id = await database.write(add_device)
    send(late, device_id, 2)
    await asyncio.to_thread(mariadb_alone.stop)
    commits = Commits(database)
    pace = Pace(idle_seconds_max=0.1, away_seconds=0.01, away_seconds_max=0.1)
    with capture_logs() as lines:
        async with draining(database, shop, late, pace=pace) as outboxes:
            await until(lambda: _errors(outboxes, "late") >= 3)
            assert outboxes.away() == ["late"]
            await asyncio.to_thread(send, shop, device_id, 1)
            await commits.until(lambda: published(database, device_id) == [1])
            await asyncio.to_thread(mariadb_alone.start)
            await commits.until(lambda: published(database, device_id) == [1, 2])
            await until(lambda: outboxes.away() == [])
            await until(lambda: any(line["event"].endswith("passes succeed again") for line in lines))
    said = [line["event"].removeprefix("[device-outbox] ") for line in lines if line.get("source") == "late"]
    assert [event for event in said if "pass" in event] == [
        "the pass failed, it is tried again and again",
        "passes succeed again",
    ]
