import asyncio
import json
import random
import signal as signals
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import MySQLdb
import pytest
from structlog.testing import capture_logs

from restante.core.backoff import Backoff
from restante.core.cursor import START
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.migrate import migrate
from restante.database.outside import OutsideAddress, OutsideDatabase
from restante.database.sqlite import SqliteEngine
from restante.delivery import log, outbox, receipts
from restante.delivery.dispatcher import DispatcherOptions
from restante.delivery.outbox import Outcome
from restante.delivery.outside_dispatcher import OutsideDispatcher
from restante.delivery.outside_outbox import ClaimedRow
from restante.delivery.receipts import Publishing
from restante.delivery.signals import Signal
from restante.outbox import enqueue
from tests.conftest import ManualClock
from tests.delivery.outside import SOURCE, Place, in_mysql
from tests.delivery.rows import add_device, published
from tests.services.mariadb import PASSWORD, MariaDb

SOON = 60.0
WRITERS = 32
OPTIONS = DispatcherOptions(batch=10, lease_seconds=30.0, backoff=Backoff(base_seconds=3600, max_seconds=3600))


@pytest.fixture
def source(place: Place) -> Iterator[OutsideDatabase]:
    with place.opened() as source:
        yield source


@pytest.fixture
def dispatcher(database: Database, source: OutsideDatabase) -> OutsideDispatcher:
    return OutsideDispatcher(database, source, OPTIONS, log.append_all)


def send(place: Place, device_id: int, *abouts: Any, commit: bool = True) -> None:
    with closing(place.connect()) as conn:
        for about in abouts:
            enqueue(conn, device_id, {"type": "x", "ref": {"about": about}})
        if commit:
            conn.commit()
        else:
            conn.rollback()


async def drained(dispatcher: OutsideDispatcher) -> Outcome:
    total = Outcome()
    while (outcome := await dispatcher.run_once()) != Outcome():
        total.add(outcome)
    return total


async def test_what_is_committed_is_published_once_and_in_order(
    database: Database, device: int, neighbour: int, place: Place, dispatcher: OutsideDispatcher
) -> None:
    send(place, device, *range(25))
    send(place, neighbour, "a", "b")
    assert await drained(dispatcher) == Outcome(delivered=27)
    assert published(database, device) == list(range(25))
    assert published(database, neighbour) == ["a", "b"]
    assert {status for _, status in place.rows()} == {"DELIVERED"}
    assert dispatcher.totals.delivered == 27


async def test_what_is_rolled_back_was_never_sent(
    database: Database, device: int, place: Place, dispatcher: OutsideDispatcher
) -> None:
    send(place, device, 1, 2, commit=False)
    assert await drained(dispatcher) == Outcome()
    assert published(database, device) == []


async def test_a_dispatcher_that_dies_between_publishing_and_marking_makes_no_duplicate(
    database: Database, device: int, place: Place, source: OutsideDatabase, dispatcher: OutsideDispatcher
) -> None:
    send(place, device, 1, 2)
    await Dying(database, source, OPTIONS, log.append_all).die()
    assert {status for _, status in place.rows()} == {"PENDING"}
    assert await drained(dispatcher) == Outcome()
    place.run("UPDATE device_update_outbox SET lock_expires_at = 1")
    assert await drained(dispatcher) == Outcome(delivered=2)
    assert published(database, device) == [1, 2]
    assert database.read_now(receipts.unsettled, SOURCE, -60, 10) == []


class Died(BaseException):
    """What nobody catches."""


class Dying(OutsideDispatcher):
    """Publishes, and does not live to mark."""

    async def mark(self, rows: list[ClaimedRow], publishing: Publishing) -> Outcome:
        raise Died

    async def die(self) -> None:
        with pytest.raises(Died):
            await self.run_once()


class Sleepy(OutsideDispatcher):
    """Falls asleep over what it has claimed, for as long as the lease lasts."""

    clock: ManualClock

    async def publish(self, rows: list[ClaimedRow], lease_ends_ms: int) -> Publishing:
        self.clock.advance(OPTIONS.lease_seconds)
        return await super().publish(rows, lease_ends_ms)


async def test_one_that_wakes_up_after_its_lease_publishes_nothing(
    database: Database, device: int, place: Place, source: OutsideDatabase, clock: ManualClock
) -> None:
    send(place, device, 1)
    sleepy = Sleepy(database, source, OPTIONS, log.append_all)
    sleepy.clock = clock
    with capture_logs() as lines:
        assert await sleepy.run_once() == Outcome()
    assert sleepy.totals.stale == 1
    assert [line["event"] for line in lines] == ["[device-outbox] the lease was over, nothing was published"]
    assert published(database, device) == []


async def test_a_bad_payload_and_an_unknown_device_fail_at_once_and_hold_back_nobody(
    database: Database, device: int, place: Place, dispatcher: OutsideDispatcher
) -> None:
    place.run(f"INSERT INTO device_update_outbox (device_id, event_kind, payload) VALUES ({device}, 'x', 'no JSON')")
    send(place, 999, 1)
    send(place, device, 2)
    with capture_logs() as lines:
        assert await drained(dispatcher) == Outcome(delivered=1, failed=2)
    rows = place.rows("status, failure_reason")
    assert [status for status, _ in rows] == ["FAILED", "FAILED", "DELIVERED"]
    assert rows[0][1].startswith("the payload is not a signal")
    assert rows[1][1] == "there is no device 999"
    assert published(database, device) == [2]
    assert all(line["event"].startswith("[device-outbox] ") and line["source"] == SOURCE for line in lines)


class Appending:
    """The log, with devices it cannot write to for now."""

    def __init__(self) -> None:
        self.unreachable: set[int] = set()
        self.error: Exception = RuntimeError("no room")

    def __call__(self, conn: Connection, signals: Mapping[int, list[Signal]]) -> object:
        if self.unreachable & signals.keys():
            raise self.error
        return log.append_all(conn, signals)


async def test_a_row_that_cannot_be_published_waits_and_holds_back_its_device_only(
    database: Database, device: int, neighbour: int, place: Place, source: OutsideDatabase
) -> None:
    appending = Appending()
    dispatcher = OutsideDispatcher(database, source, OPTIONS, appending)
    appending.unreachable = {device}
    send(place, device, 1, 2)
    send(place, neighbour, 3)
    assert await drained(dispatcher) == Outcome(delivered=1, retried=1)
    waiting = place.rows("status, attempts, failure_reason")[0]
    assert waiting == ("PENDING", 1, "RuntimeError: no room")
    assert (published(database, device), published(database, neighbour)) == ([], [3])
    appending.unreachable = set()
    assert await drained(dispatcher) == Outcome()
    place.run("UPDATE device_update_outbox SET next_attempt_at = 1 WHERE next_attempt_at IS NOT NULL")
    assert await drained(dispatcher) == Outcome(delivered=2)
    assert published(database, device) == [1, 2]


async def test_our_own_database_being_away_costs_the_rows_no_attempt(
    database: Database, device: int, place: Place, source: OutsideDatabase
) -> None:
    appending = Appending()
    appending.unreachable, appending.error = {device}, DatabaseUnavailable("locked")
    send(place, device, 1)
    with pytest.raises(DatabaseUnavailable):
        await OutsideDispatcher(database, source, OPTIONS, appending).run_once()
    assert place.rows("status, attempts, claimed_by") == [("PENDING", 0, None)]


async def test_left_over_receipts_are_settled_and_old_rows_removed(
    database: Database, device: int, place: Place, source: OutsideDatabase, clock: ManualClock
) -> None:
    send(place, device, 1, 2)
    await Dying(database, source, OPTIONS, log.append_all).die()
    place.run("UPDATE device_update_outbox SET status = 'DELIVERED', delivered_at = 1 WHERE id = 1")
    clock.advance(60)
    await OutsideDispatcher(database, source, OPTIONS, log.append_all, keep_delivered_days=7).run_once()
    assert database.read_now(receipts.unsettled, SOURCE, -60, 10) == [2]
    assert place.rows() == [(2, "PENDING")]


async def test_a_source_that_is_away_fails_the_pass_and_says_so(database: Database, tmp_path: Path) -> None:
    address = OutsideAddress("gone", "mysql", "mysql://ada:s3cret@127.0.0.1:1/shop")
    with closing(OutsideDatabase(address)) as source:
        dispatcher = OutsideDispatcher(database, source, OPTIONS, log.append_all)
        with pytest.raises(DatabaseError) as raised:
            await dispatcher.run_once()
        assert source.problem == str(raised.value)
        assert "s3cret" not in source.problem


async def test_a_source_that_comes_back_is_drained(database: Database, device: int, mariadb_alone: MariaDb) -> None:
    place = in_mysql(mariadb_alone, "shop")
    with place.opened() as source:
        dispatcher = OutsideDispatcher(database, source, OPTIONS, log.append_all)
        send(place, device, 1)
        await drained(dispatcher)
        mariadb_alone.stop()
        with pytest.raises(DatabaseUnavailable):
            await dispatcher.run_once()
        assert source.problem is not None
        mariadb_alone.start()
        send(place, device, 2)
        assert await drained(dispatcher) == Outcome(delivered=1)
        assert source.problem is None
    assert published(database, device) == [1, 2]


@pytest.mark.slow
async def test_thirty_two_writers_with_open_transactions_and_two_dispatchers(
    database: Database, locking_place: Place
) -> None:
    """None skipped, none doubled, each writer's own order kept, whenever the transactions end."""
    each = 12
    devices = [database.write_now(add_device) for _ in range(8)]
    writers = [
        threading.Thread(target=_write, args=(locking_place, devices, number, each)) for number in range(WRITERS)
    ]
    with locking_place.opened() as first, locking_place.opened() as second:
        both = [OutsideDispatcher(database, source, OPTIONS, log.append_all) for source in (first, second)]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            await asyncio.gather(*(dispatcher.run_once() for dispatcher in both))
        for writer in writers:
            writer.join(SOON)
        while any(outcome != Outcome() for outcome in await asyncio.gather(*(each.run_once() for each in both))):
            pass
    found = [about for device_id in devices for about in published(database, device_id)]
    assert len(found) == WRITERS * each
    for device_id in devices:
        abouts = published(database, device_id)
        for number in range(WRITERS):
            own = [count for writer, count in abouts if writer == number]
            assert own == sorted(set(own))
    assert sorted(map(tuple, found)) == [(number, count) for number in range(WRITERS) for count in range(each)]


def _write(place: Place, devices: list[int], number: int, count: int) -> None:
    chance = random.Random(number)
    with closing(place.connect()) as conn:
        for about in range(count):
            enqueue(conn, devices[number % len(devices)], {"type": "x", "ref": {"about": (number, about)}})
            # The transaction stays open for a moment, so that ids are committed out of their order.
            time.sleep(chance.uniform(0, 0.2))
            if chance.random() < 0.1:
                conn.rollback()
                enqueue(conn, devices[number % len(devices)], {"type": "x", "ref": {"about": (number, about)}})
            conn.commit()


@pytest.mark.slow
async def test_a_dispatcher_killed_between_publishing_and_marking(
    database: Database, device: int, place: Place, tmp_path: Path
) -> None:
    """A process of its own, SIGKILL, nothing tidied up."""
    path = tmp_path / "killed.db"
    migrate(SqliteEngine(path))
    with closing(Database(SqliteEngine(path))) as kept:
        device_id = kept.write_now(add_device)
        send(place, device_id, 1, 2, 3)
    program = textwrap.dedent(
        f"""
        import asyncio, os, signal
        from pathlib import Path
        from restante.database.database import Database
        from restante.database.outside import OutsideAddress, OutsideDatabase
        from restante.database.sqlite import SqliteEngine
        from restante.delivery import log
        from restante.delivery.dispatcher import DispatcherOptions
        from restante.delivery.outside_dispatcher import OutsideDispatcher

        database = Database(SqliteEngine(Path({str(path)!r})))
        source = OutsideDatabase(OutsideAddress({SOURCE!r}, {place.address.engine!r}, {place.address.url!r}))
        dispatcher = OutsideDispatcher(database, source, DispatcherOptions(), log.append_all)

        async def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        dispatcher.mark = die
        asyncio.run(dispatcher.run_once())
        """
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], capture_output=True, timeout=SOON)
    assert done.returncode == -signals.SIGKILL, done.stderr.decode()
    place.run("UPDATE device_update_outbox SET lock_expires_at = 1")
    with closing(Database(SqliteEngine(path))) as kept, place.opened() as source:
        assert len(kept.read_now(log.read, device_id, START, 10).entries) == 3
        assert await drained(OutsideDispatcher(kept, source, OPTIONS, log.append_all)) == Outcome(delivered=3)
        assert published(kept, device_id) == [1, 2, 3]


async def test_mysqlclient_writes_to_the_same_outbox(
    database: Database, engine_name: str, device: int, mariadb: MariaDb
) -> None:
    name = f"by_mysqlclient_beside_{engine_name}"
    place = in_mysql(mariadb, name)
    with closing(
        MySQLdb.connect(
            host="127.0.0.1",
            port=mariadb.port,
            user="restante",
            password=PASSWORD,
            database=name,
            charset="utf8mb4",
        )
    ) as conn:
        enqueue(conn, device, {"type": "x", "ref": {"about": "rolled back"}})
        conn.rollback()
        enqueue(conn, device, {"type": "x", "ref": {"about": "100 % é"}})
        conn.commit()
    with place.opened() as source:
        assert await drained(OutsideDispatcher(database, source, OPTIONS, log.append_all)) == Outcome(delivered=1)
    assert published(database, device) == ["100 % é"]
    (payload,) = place.rows("payload")[0]
    assert json.loads(payload)["ref"] == {"about": "100 % é"}


async def test_rows_that_failed_over_there_get_a_new_start_from_here(
    database: Database, place: Place, dispatcher: OutsideDispatcher, source: OutsideDatabase
) -> None:
    device_id = 1
    send(place, device_id, 1)
    assert await drained(dispatcher) == Outcome(failed=1)
    assert database.write_now(add_device) == device_id
    assert await source.write(outbox.retry, None) == 1
    assert await dispatcher.seconds_until_due() == 0.0
    assert await drained(dispatcher) == Outcome(delivered=1)
    assert published(database, device_id) == [1]
