import asyncio
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from restante.core.backoff import PollBackoff
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.delivery.outbox.dispatch_loop import DispatchLoop
from restante.delivery.outbox.dispatcher import Dispatcher, DispatcherOptions
from restante.delivery.outbox.external_dispatcher import ExternalDispatcher
from restante.delivery.outbox.outbox import Outcome
from tests.conftest import ManualClock
from tests.defaults import append_all_signals
from tests.delivery.external_databases import ApplicationDatabase
from tests.delivery.outbox.test_dispatcher import OPTIONS, FailingLog
from tests.delivery.outbox.test_external_dispatcher import send
from tests.delivery.rows import enqueue, published

TIMEOUT_SECONDS = 60.0
NEVER = 3600.0


@pytest.fixture
def failing_log() -> FailingLog:
    return FailingLog()


class RecordingDispatcher(Dispatcher):
    """Records the outcome of every pass; a test can wait for one, and make one fail."""

    def __init__(self, database: Database, options: DispatcherOptions, failing_log: FailingLog) -> None:
        super().__init__(database, options, failing_log)
        self.outcomes: asyncio.Queue[Outcome | Exception] = asyncio.Queue()
        self.errors: list[Exception] = []
        self.wake_during_next: Callable[[], None] | None = None

    async def run_once(self) -> Outcome:
        try:
            if self.errors:
                raise self.errors.pop()
            outcome = await super().run_once()
            if self.wake_during_next is not None:
                self.wake_during_next()
                self.wake_during_next = None
        except Exception as error:
            self.outcomes.put_nowait(error)
            raise
        self.outcomes.put_nowait(outcome)
        return outcome

    async def next(self) -> Outcome | Exception:
        return await asyncio.wait_for(self.outcomes.get(), TIMEOUT_SECONDS)


class RunningLoop:
    def __init__(
        self, database: Database, failing_log: FailingLog, interval_seconds: float = NEVER, retry_seconds: float = 0.01
    ) -> None:
        backoff = PollBackoff(interval_seconds, interval_seconds, retry_seconds, retry_seconds)
        self.passes = RecordingDispatcher(database, replace(OPTIONS, batch=2), failing_log)
        self.loop = DispatchLoop(self.passes, backoff)

    async def __aenter__(self) -> "RunningLoop":
        self._task = asyncio.ensure_future(self.loop.run())
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.loop.stop()
        await asyncio.wait_for(self._task, TIMEOUT_SECONDS)


async def test_loop_drains_the_outbox_then_waits_to_be_woken(
    database: Database, device: int, failing_log: FailingLog
) -> None:
    enqueue(database, device, 1, 2, 3)
    async with RunningLoop(database, failing_log) as running:
        drained = [await running.passes.next() for _ in range(3)]
        assert drained == [Outcome(delivered=2), Outcome(delivered=1), Outcome()]
        enqueue(database, device, 4)
        running.loop.wake()
        assert await running.passes.next() == Outcome(delivered=1)


async def test_wake_during_a_pass_is_not_lost(database: Database, device: int, failing_log: FailingLog) -> None:
    async with RunningLoop(database, failing_log) as running:
        running.passes.wake_during_next = running.loop.wake
        assert await running.passes.next() == Outcome()
        assert await running.passes.next() == Outcome()


async def test_loop_polls_after_its_interval(database: Database, device: int, failing_log: FailingLog) -> None:
    async with RunningLoop(database, failing_log, interval_seconds=0.01) as running:
        assert await running.passes.next() == Outcome()
        enqueue(database, device, 1)
        while await running.passes.next() == Outcome():
            pass
        assert published(database, device) == [1]


async def test_loop_runs_for_a_due_retry_before_its_interval(
    database: Database, device: int, failing_log: FailingLog, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    failing_log.failing_devices = {device}
    async with RunningLoop(database, failing_log) as running:
        assert await running.passes.next() == Outcome(retried=1)
        failing_log.failing_devices = set()
        clock.advance(0.99)
        while (outcome := await running.passes.next()) == Outcome():
            clock.advance(0.01)
        assert outcome == Outcome(delivered=1)


async def test_rows_behind_a_waiting_row_do_not_keep_the_loop_busy(
    database: Database, device: int, failing_log: FailingLog
) -> None:
    enqueue(database, device, 1, 2, 3)
    failing_log.failing_abouts = {1}
    running = RunningLoop(database, failing_log)
    assert await running.passes.run_once() == Outcome(retried=1)
    assert await running.loop._idle_seconds() == 1.0


async def test_next_batch_is_tried_at_once_after_a_pass_that_only_failed(
    database: Database, device: int, other_device: int, failing_log: FailingLog
) -> None:
    enqueue(database, device, 1, 2)
    enqueue(database, other_device, 3)
    failing_log.failing_devices = {device}
    async with RunningLoop(database, failing_log) as running:
        assert await running.passes.next() == Outcome(retried=1)
        assert await running.passes.next() == Outcome(delivered=1)


@pytest.mark.parametrize("error", [DatabaseUnavailable("locked"), RuntimeError("unforeseen")])
async def test_loop_survives_a_failed_pass(
    database: Database, device: int, failing_log: FailingLog, error: Exception
) -> None:
    enqueue(database, device, 1)
    async with RunningLoop(database, failing_log, interval_seconds=0.01) as running:
        running.passes.errors.append(error)
        assert await running.passes.next() is error
        assert await running.passes.next() == Outcome(delivered=1)


async def test_waiting_loop_can_be_stopped(database: Database, failing_log: FailingLog) -> None:
    async with RunningLoop(database, failing_log) as running:
        assert await running.passes.next() == Outcome()


async def test_failures_and_recovery_are_logged_once(database: Database, device: int, failing_log: FailingLog) -> None:
    enqueue(database, device, 1)
    errors: list[Exception] = [DatabaseUnavailable("unreachable") for _ in range(3)]
    with capture_logs() as lines:
        async with RunningLoop(database, failing_log) as running:
            running.passes.errors += errors
            for _ in errors:
                assert isinstance(await running.passes.next(), DatabaseUnavailable)
            assert await running.passes.next() == Outcome(delivered=1)
            assert await running.passes.next() == Outcome()
    events = [line["event"].removeprefix("[device-outbox] ") for line in lines if line["log_level"] != "debug"]
    assert events == ["the pass failed, retrying", "delivered", "passes succeed again"]
    assert running.passes.counters.errors == 3


async def test_wake_ups_do_not_make_a_failing_loop_busy(database: Database, failing_log: FailingLog) -> None:
    async with RunningLoop(database, failing_log, retry_seconds=NEVER) as running:
        running.passes.errors.append(DatabaseUnavailable("unreachable"))
        assert isinstance(await running.passes.next(), DatabaseUnavailable)
        for _ in range(10):
            running.loop.wake()
            await asyncio.sleep(0)
    assert running.passes.outcomes.empty()


async def test_idle_delay_grows_with_empty_passes(database: Database, failing_log: FailingLog) -> None:
    passes = RecordingDispatcher(database, replace(OPTIONS, batch=2), failing_log)
    loop = DispatchLoop(passes, PollBackoff(idle_seconds=1, idle_seconds_max=NEVER))
    waits = []
    for loop._empty_passes in (1, 2, 3):
        waits.append(await loop._idle_seconds())
    assert 0.75 <= waits[0] <= 1 < waits[1] <= 2 < waits[2] <= 4


async def test_row_locked_by_another_transaction_is_tried_less_and_less_often(
    database: Database, device: int, locking_application: ApplicationDatabase
) -> None:
    with closing(locking_application.connect()) as application, locking_application.opened() as source:
        send(locking_application, device, 1)
        application.cursor().execute("SELECT id FROM device_update_outbox FOR UPDATE")
        passes = ExternalDispatcher(database, source, OPTIONS, append_all_signals, keep_delivered_days=7)
        loop = DispatchLoop(passes, PollBackoff(idle_seconds_max=1.0))
        waits = []
        for loop._empty_passes in range(1, 7):
            assert await passes.run_once() == Outcome()
            waits.append(await loop._idle_seconds())
        assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
