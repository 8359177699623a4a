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
from restante.database.external.external_database import ExternalAddress, ExternalDatabase
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from restante.delivery.log import log
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import dedupe_receipts, outbox
from restante.delivery.outbox.dedupe_receipts import PublishResult
from restante.delivery.outbox.dispatcher import DispatcherOptions
from restante.delivery.outbox.external_dispatcher import ExternalDispatcher
from restante.delivery.outbox.external_outbox import ClaimedRow
from restante.delivery.outbox.outbox import Outcome
from restante.outbox import enqueue
from tests.conftest import ManualClock
from tests.defaults import append_all_signals
from tests.delivery.external_databases import SOURCE, ApplicationDatabase, mysql_application
from tests.delivery.rows import add_device, published
from tests.services.mariadb import PASSWORD, MariaDb

TIMEOUT_SECONDS = 60.0
WRITERS = 32
KEEP_DAYS = 7
OPTIONS = DispatcherOptions(batch=10, lease_seconds=30.0, backoff=Backoff(3600, 3600, attempts_max=10))


@pytest.fixture
def source(application: ApplicationDatabase) -> Iterator[ExternalDatabase]:
    with application.opened() as source:
        yield source


@pytest.fixture
def dispatcher(database: Database, source: ExternalDatabase) -> ExternalDispatcher:
    return ExternalDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS)


def send(application: ApplicationDatabase, device_id: int, *abouts: Any, commit: bool = True) -> None:
    with closing(application.connect()) as conn:
        for about in abouts:
            enqueue(conn, device_id, {"type": "x", "ref": {"about": about}})
        if commit:
            conn.commit()
        else:
            conn.rollback()


async def drained(dispatcher: ExternalDispatcher) -> Outcome:
    total = Outcome()
    while (outcome := await dispatcher.run_once()) != Outcome():
        total.add(outcome)
    return total


async def test_committed_rows_are_published_once_and_in_order(
    database: Database, device: int, other_device: int, application: ApplicationDatabase, dispatcher: ExternalDispatcher
) -> None:
    send(application, device, *range(25))
    send(application, other_device, "a", "b")
    assert await drained(dispatcher) == Outcome(delivered=27)
    assert published(database, device) == list(range(25))
    assert published(database, other_device) == ["a", "b"]
    assert {status for _, status in application.rows()} == {"DELIVERED"}
    assert dispatcher.counters.delivered == 27


async def test_rolled_back_rows_are_not_published(
    database: Database, device: int, application: ApplicationDatabase, dispatcher: ExternalDispatcher
) -> None:
    send(application, device, 1, 2, commit=False)
    assert await drained(dispatcher) == Outcome()
    assert published(database, device) == []


async def test_death_between_publishing_and_marking_causes_no_duplicate(
    database: Database,
    device: int,
    application: ApplicationDatabase,
    source: ExternalDatabase,
    dispatcher: ExternalDispatcher,
) -> None:
    send(application, device, 1, 2)
    await DyingDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS).die()
    assert {status for _, status in application.rows()} == {"PENDING"}
    assert await drained(dispatcher) == Outcome()
    application.run("UPDATE device_update_outbox SET lock_expires_at = 1")
    assert await drained(dispatcher) == Outcome(delivered=2)
    assert published(database, device) == [1, 2]
    assert database.read_now(dedupe_receipts.open_receipts, SOURCE, -60, 10) == []


class Died(BaseException):
    """Simulates the death of the process."""


class DyingDispatcher(ExternalDispatcher):
    """Dies after publishing, before marking."""

    async def mark(self, rows: list[ClaimedRow], published: PublishResult) -> Outcome:
        raise Died

    async def die(self) -> None:
        with pytest.raises(Died):
            await self.run_once()


class StallingDispatcher(ExternalDispatcher):
    """Stalls between claiming and publishing until the lease has expired."""

    clock: ManualClock

    async def publish(self, rows: list[ClaimedRow], lease_ends_ms: int) -> PublishResult:
        self.clock.advance(OPTIONS.lease_seconds)
        return await super().publish(rows, lease_ends_ms)


async def test_dispatcher_publishes_nothing_after_its_lease_expired(
    database: Database, device: int, application: ApplicationDatabase, source: ExternalDatabase, clock: ManualClock
) -> None:
    send(application, device, 1)
    stalling = StallingDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS)
    stalling.clock = clock
    with capture_logs() as lines:
        assert await stalling.run_once() == Outcome()
    assert stalling.counters.stale == 1
    assert [line["event"] for line in lines] == ["[device-outbox] the lease was over, nothing was published"]
    assert published(database, device) == []


async def test_undeliverable_rows_fail_at_once_and_hold_back_no_other(
    database: Database, device: int, application: ApplicationDatabase, dispatcher: ExternalDispatcher
) -> None:
    application.run(
        f"INSERT INTO device_update_outbox (device_id, event_kind, payload) VALUES ({device}, 'x', 'no JSON')"
    )
    send(application, 999, 1)
    send(application, device, 2)
    with capture_logs() as lines:
        assert await drained(dispatcher) == Outcome(delivered=1, failed=2)
    rows = application.rows("status, failure_reason")
    assert [status for status, _ in rows] == ["FAILED", "FAILED", "DELIVERED"]
    assert rows[0][1].startswith("the payload is not a signal")
    assert rows[1][1] == "there is no device 999"
    assert published(database, device) == [2]
    assert all(line["event"].startswith("[device-outbox] ") and line["source"] == SOURCE for line in lines)


class FailingLog:
    """The log, with an error for some devices."""

    def __init__(self) -> None:
        self.unreachable: set[int] = set()
        self.error: Exception = RuntimeError("no room")

    def __call__(self, conn: Connection, signals: Mapping[int, list[Signal]]) -> object:
        if self.unreachable & signals.keys():
            raise self.error
        return append_all_signals(conn, signals)


async def test_failing_row_waits_and_holds_back_its_device_only(
    database: Database, device: int, other_device: int, application: ApplicationDatabase, source: ExternalDatabase
) -> None:
    failing_log = FailingLog()
    dispatcher = ExternalDispatcher(database, source, OPTIONS, failing_log, KEEP_DAYS)
    failing_log.unreachable = {device}
    send(application, device, 1, 2)
    send(application, other_device, 3)
    assert await drained(dispatcher) == Outcome(delivered=1, retried=1)
    waiting = application.rows("status, attempts, failure_reason")[0]
    assert waiting == ("PENDING", 1, "RuntimeError: no room")
    assert (published(database, device), published(database, other_device)) == ([], [3])
    failing_log.unreachable = set()
    assert await drained(dispatcher) == Outcome()
    application.run("UPDATE device_update_outbox SET next_attempt_at = 1 WHERE next_attempt_at IS NOT NULL")
    assert await drained(dispatcher) == Outcome(delivered=2)
    assert published(database, device) == [1, 2]


async def test_unavailable_server_database_does_not_count_as_an_attempt(
    database: Database, device: int, application: ApplicationDatabase, source: ExternalDatabase
) -> None:
    failing_log = FailingLog()
    failing_log.unreachable, failing_log.error = {device}, DatabaseUnavailable("locked")
    send(application, device, 1)
    with pytest.raises(DatabaseUnavailable):
        await ExternalDispatcher(database, source, OPTIONS, failing_log, KEEP_DAYS).run_once()
    assert application.rows("status, attempts, claimed_by") == [("PENDING", 0, None)]


async def test_clean_up_closes_receipts_and_deletes_old_rows(
    database: Database, device: int, application: ApplicationDatabase, source: ExternalDatabase, clock: ManualClock
) -> None:
    send(application, device, 1, 2)
    await DyingDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS).die()
    application.run("UPDATE device_update_outbox SET status = 'DELIVERED', delivered_at = 1 WHERE id = 1")
    clock.advance(60)
    await ExternalDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS).run_once()
    assert database.read_now(dedupe_receipts.open_receipts, SOURCE, -60, 10) == [2]
    assert application.rows() == [(2, "PENDING")]


async def test_unreachable_source_fails_the_pass_and_reports_the_problem(database: Database, tmp_path: Path) -> None:
    address = ExternalAddress("gone", "mysql", "mysql://ada:s3cret@127.0.0.1:1/shop")
    with closing(ExternalDatabase(address)) as source:
        dispatcher = ExternalDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS)
        with pytest.raises(DatabaseError) as raised:
            await dispatcher.run_once()
        assert source.problem == str(raised.value)
        assert "s3cret" not in source.problem


async def test_source_is_drained_when_it_is_reachable_again(
    database: Database, device: int, own_mariadb: MariaDb
) -> None:
    application = mysql_application(own_mariadb, "shop")
    with application.opened() as source:
        dispatcher = ExternalDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS)
        send(application, device, 1)
        await drained(dispatcher)
        own_mariadb.stop()
        with pytest.raises(DatabaseUnavailable):
            await dispatcher.run_once()
        assert source.problem is not None
        own_mariadb.start()
        send(application, device, 2)
        assert await drained(dispatcher) == Outcome(delivered=1)
        assert source.problem is None
    assert published(database, device) == [1, 2]


@pytest.mark.slow
async def test_concurrent_writers_and_two_dispatchers_lose_and_duplicate_nothing(
    database: Database, locking_application: ApplicationDatabase
) -> None:
    """32 writers with open transactions. The order of each writer is kept, whenever its transactions end."""
    each = 12
    devices = [database.write_now(add_device) for _ in range(8)]
    writers = [
        threading.Thread(target=_write, args=(locking_application, devices, number, each)) for number in range(WRITERS)
    ]
    with locking_application.opened() as first, locking_application.opened() as second:
        both = [
            ExternalDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS) for source in (first, second)
        ]
        for writer in writers:
            writer.start()
        while any(writer.is_alive() for writer in writers):
            await asyncio.gather(*(dispatcher.run_once() for dispatcher in both))
        for writer in writers:
            writer.join(TIMEOUT_SECONDS)
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


def _write(application: ApplicationDatabase, devices: list[int], number: int, count: int) -> None:
    chance = random.Random(number)
    with closing(application.connect()) as conn:
        for about in range(count):
            enqueue(conn, devices[number % len(devices)], {"type": "x", "ref": {"about": (number, about)}})
            # The transaction stays open for a while, so that ids are committed out of order.
            time.sleep(chance.uniform(0, 0.2))
            if chance.random() < 0.1:
                conn.rollback()
                enqueue(conn, devices[number % len(devices)], {"type": "x", "ref": {"about": (number, about)}})
            conn.commit()


@pytest.mark.slow
async def test_process_killed_between_publishing_and_marking_causes_no_duplicate(
    database: Database, device: int, application: ApplicationDatabase, tmp_path: Path
) -> None:
    """In a separate process, by SIGKILL, without any clean-up."""
    path = tmp_path / "killed.db"
    migrate(SqliteEngine(path))
    with closing(Database(SqliteEngine(path))) as server_database:
        device_id = server_database.write_now(add_device)
        send(application, device_id, 1, 2, 3)
    program = textwrap.dedent(
        f"""
        import asyncio, os, signal
        from pathlib import Path
        from restante.core.backoff import Backoff
        from restante.database.database import Database
        from restante.database.external.external_database import ExternalAddress, ExternalDatabase
        from restante.database.sqlite import SqliteEngine
        from tests.defaults import append_all_signals
        from restante.delivery.outbox.dispatcher import DispatcherOptions
        from restante.delivery.outbox.external_dispatcher import ExternalDispatcher

        database = Database(SqliteEngine(Path({str(path)!r})))
        address = ExternalAddress({SOURCE!r}, {application.address.engine!r}, {application.address.url!r})
        source = ExternalDatabase(address)
        options = DispatcherOptions(batch=10, lease_seconds=30.0, backoff=Backoff(1.0, 300.0, 10))
        dispatcher = ExternalDispatcher(database, source, options, append_all_signals, {KEEP_DAYS})

        async def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)

        dispatcher.mark = die
        asyncio.run(dispatcher.run_once())
        """
    )
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == -signals.SIGKILL, done.stderr.decode()
    application.run("UPDATE device_update_outbox SET lock_expires_at = 1")
    with closing(Database(SqliteEngine(path))) as server_database, application.opened() as source:
        assert len(server_database.read_now(log.read, device_id, START, 10).entries) == 3
        assert await drained(
            ExternalDispatcher(server_database, source, OPTIONS, append_all_signals, KEEP_DAYS)
        ) == Outcome(delivered=3)
        assert published(server_database, device_id) == [1, 2, 3]


async def test_mysqlclient_writes_to_the_same_outbox(
    database: Database, engine_name: str, device: int, mariadb: MariaDb
) -> None:
    name = f"by_mysqlclient_beside_{engine_name}"
    application = mysql_application(mariadb, name)
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
    with application.opened() as source:
        dispatcher = ExternalDispatcher(database, source, OPTIONS, append_all_signals, KEEP_DAYS)
        assert await drained(dispatcher) == Outcome(delivered=1)
    assert published(database, device) == ["100 % é"]
    (payload,) = application.rows("payload")[0]
    assert json.loads(payload)["ref"] == {"about": "100 % é"}


async def test_failed_external_rows_can_be_reset(
    database: Database, application: ApplicationDatabase, dispatcher: ExternalDispatcher, source: ExternalDatabase
) -> None:
    device_id = 1
    send(application, device_id, 1)
    assert await drained(dispatcher) == Outcome(failed=1)
    assert database.write_now(add_device) == device_id
    assert await source.write(outbox.retry, None) == 1
    assert await dispatcher.seconds_until_due() == 0.0
    assert await drained(dispatcher) == Outcome(delivered=1)
    assert published(database, device_id) == [1]
