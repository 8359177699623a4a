import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from restante.core.backoff import Backoff
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.log.log import SignalsPublished
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.delivery.outbox.dispatcher import Dispatcher, DispatcherOptions
from restante.delivery.outbox.outbox import Outcome
from tests.conftest import ManualClock
from tests.defaults import append_all_signals
from tests.delivery.rows import enqueue, published, row

OPTIONS = DispatcherOptions(batch=100, lease_seconds=30.0, backoff=Backoff(1.0, 300.0, attempts_max=10))


class FailingLog:
    """The real log, with errors for some devices and for signals with certain `about` values."""

    def __init__(self) -> None:
        self.failing_devices: set[int] = set()
        self.failing_abouts: set[object] = set()
        self.appended: list[tuple[int, object]] = []

    def __call__(self, conn: Connection, signals: Mapping[int, list[Signal]]) -> None:
        append_all_signals(conn, signals)
        appended = [(device_id, signal.ref["about"]) for device_id, own in signals.items() for signal in own]
        self.appended += appended
        if self.failing_devices & signals.keys() or self.failing_abouts & {about for _, about in appended}:
            raise ConnectionError("the log is unreachable")


@pytest.fixture
def failing_log() -> FailingLog:
    return FailingLog()


def dispatcher(database: Database, failing_log: FailingLog, *, batch: int = 100, attempts_max: int = 10) -> Dispatcher:
    options = replace(OPTIONS, batch=batch, backoff=replace(OPTIONS.backoff, attempts_max=attempts_max))
    return Dispatcher(database, options, failing_log)


async def test_pass_delivers_pending_rows(database: Database, device: int, failing_log: FailingLog) -> None:
    enqueue(database, device, 1, 2)
    mover = dispatcher(database, failing_log)
    assert await mover.run_once() == Outcome(delivered=2)
    assert await mover.run_once() == Outcome()
    assert published(database, device) == [1, 2]
    assert (mover.counters.passes, mover.counters.delivered) == (1, 2)


async def test_pass_delivers_at_most_a_batch(database: Database, device: int, failing_log: FailingLog) -> None:
    enqueue(database, device, *range(5))
    mover = dispatcher(database, failing_log, batch=2)
    assert [(await mover.run_once()).delivered for _ in range(4)] == [2, 2, 1, 0]
    assert published(database, device) == [0, 1, 2, 3, 4]


async def test_failing_device_affects_no_other(
    database: Database, device: int, other_device: int, failing_log: FailingLog
) -> None:
    for about in range(6):
        enqueue(database, (device, other_device)[about % 2], about)
    failing_log.failing_devices = {device}
    mover = dispatcher(database, failing_log)
    assert await mover.run_once() == Outcome(delivered=3, retried=1)
    assert (published(database, device), published(database, other_device)) == ([], [1, 3, 5])
    assert [row(database, row_id).attempts for row_id in (1, 3, 5)] == [1, 0, 0]
    assert [row(database, row_id).claimed_by for row_id in (1, 3, 5)] == [None, None, None]


async def test_rows_behind_a_failed_row_of_their_device_wait_for_it(
    database: Database, device: int, clock: ManualClock, failing_log: FailingLog
) -> None:
    enqueue(database, device, 1, 2, 3)
    failing_log.failing_abouts = {2}
    mover = dispatcher(database, failing_log)
    assert await mover.run_once() == Outcome(delivered=1, retried=1)
    assert await mover.run_once() == Outcome()
    assert published(database, device) == [1]
    failing_log.failing_abouts = set()
    clock.advance(1)
    assert await mover.run_once() == Outcome(delivered=2)
    assert published(database, device) == [1, 2, 3]


async def test_row_fails_after_its_last_attempt_and_the_next_is_delivered(
    database: Database, device: int, clock: ManualClock, failing_log: FailingLog
) -> None:
    enqueue(database, device, 1, 2)
    failing_log.failing_abouts = {1}
    mover = dispatcher(database, failing_log, attempts_max=3)
    outcomes = []
    for _ in range(3):
        outcomes.append(await mover.run_once())
        clock.advance(10)
    assert outcomes == [Outcome(retried=1), Outcome(retried=1), Outcome(failed=1)]
    assert row(database, 1).failure_reason == "ConnectionError: the log is unreachable"
    assert await mover.run_once() == Outcome(delivered=1)
    assert published(database, device) == [2]
    assert (mover.counters.retried, mover.counters.failed) == (2, 1)


async def test_lease_lost_while_publishing_does_no_harm(database: Database, device: int, clock: ManualClock) -> None:
    enqueue(database, device, 1, 2)
    delivered_by_other: list[Outcome] = []
    other = dispatcher(database, FailingLog())

    class SlowDispatcher(Dispatcher):
        async def _deliver_one_by_one(self) -> Outcome:
            # After the failure of the batch the lease expires, and another dispatcher delivers.
            clock.advance(31)
            delivered_by_other.append(await other.run_once())
            return await super()._deliver_one_by_one()

    failing = FailingLog()
    failing.failing_devices = {device}
    late = SlowDispatcher(database, OPTIONS, failing)
    assert await late.run_once() == Outcome()
    assert delivered_by_other == [Outcome(delivered=2)]
    assert published(database, device) == [1, 2]
    assert [row(database, row_id).status for row_id in (1, 2)] == ["DELIVERED", "DELIVERED"]


async def test_lease_lost_before_scheduling_a_retry_does_no_harm(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1, 2)
    failing, working = FailingLog(), FailingLog()
    failing.failing_devices = {device}
    other = dispatcher(database, working)

    class SlowDispatcher(Dispatcher):
        async def _schedule_retry(self, row: outbox.LeasedRow, error: Exception) -> Outcome:
            clock.advance(31)
            await other.run_once()
            return await super()._schedule_retry(row, error)

    late = SlowDispatcher(database, replace(OPTIONS, backoff=replace(OPTIONS.backoff, attempts_max=1)), failing)
    assert await late.run_once() == Outcome()
    assert [row(database, row_id).status for row_id in (1, 2)] == ["DELIVERED", "DELIVERED"]
    assert published(database, device) == [1, 2]


async def test_batch_of_a_dead_dispatcher_is_delivered_by_another(
    database: Database, device: int, clock: ManualClock, failing_log: FailingLog
) -> None:
    enqueue(database, device, 1)
    await database.write(outbox.claim, "dead", 30.0, 100)
    mover = dispatcher(database, failing_log)
    assert await mover.run_once() == Outcome()
    clock.advance(30)
    assert await mover.run_once() == Outcome(delivered=1)


async def test_two_dispatchers_publish_every_row_once_and_in_order(
    database: Database, device: int, other_device: int
) -> None:
    for about in range(40):
        enqueue(database, (device, other_device)[about % 2], about)
    failing_log = FailingLog()
    mover = [dispatcher(database, failing_log, batch=3) for _ in range(2)]
    assert mover[0].name != mover[1].name
    while any(outcome.delivered for outcome in await asyncio.gather(*(one.run_once() for one in mover))):
        pass
    assert published(database, device) == list(range(0, 40, 2))
    assert published(database, other_device) == list(range(1, 40, 2))


async def test_log_lines_carry_the_prefix(database: Database, device: int, failing_log: FailingLog) -> None:
    enqueue(database, device, 1, 2)
    failing_log.failing_abouts = {2}
    with capture_logs() as lines:
        await dispatcher(database, failing_log, attempts_max=1).run_once()
    assert lines
    assert all(line["event"].startswith("[device-outbox] ") for line in lines)
    levels = {line["event"].removeprefix("[device-outbox] "): line["log_level"] for line in lines}
    assert (levels["delivered"], levels["a row failed"], levels["given up"]) == ("info", "error", "error")


async def test_delivery_publishes_a_commit_event(database: Database, device: int, failing_log: FailingLog) -> None:
    committed: list[object] = []
    database.on_commit(committed.extend)
    enqueue(database, device, 1)
    await dispatcher(database, failing_log).run_once()
    (event,) = (event for event in committed if isinstance(event, SignalsPublished))
    assert (event.device_id, event.head.newest.n) == (device, 1)
