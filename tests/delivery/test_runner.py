import asyncio
from collections.abc import Callable
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from restante.core.pace import Pace
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.delivery import log
from restante.delivery.dispatcher import Dispatcher, DispatcherOptions
from restante.delivery.outbox import Outcome
from restante.delivery.outside_dispatcher import OutsideDispatcher
from restante.delivery.runner import Runner
from tests.conftest import ManualClock
from tests.delivery.outside import Place
from tests.delivery.rows import enqueue, published
from tests.delivery.test_dispatcher import Appending
from tests.delivery.test_outside_dispatcher import send

SOON = 60.0
NEVER = 3600.0


@pytest.fixture
def appending() -> Appending:
    return Appending()


class Watched(Dispatcher):
    """Lets a test wait for its passes, and have one fail."""

    def __init__(self, database: Database, options: DispatcherOptions, appending: Appending) -> None:
        super().__init__(database, options, appending)
        self.outcomes: asyncio.Queue[Outcome | Exception] = asyncio.Queue()
        self.errors: list[Exception] = []
        self.ring_during_next: Callable[[], None] | None = None

    async def run_once(self) -> Outcome:
        try:
            if self.errors:
                raise self.errors.pop()
            outcome = await super().run_once()
            if self.ring_during_next is not None:
                self.ring_during_next()
                self.ring_during_next = None
        except Exception as error:
            self.outcomes.put_nowait(error)
            raise
        self.outcomes.put_nowait(outcome)
        return outcome

    async def next(self) -> Outcome | Exception:
        return await asyncio.wait_for(self.outcomes.get(), SOON)


class Running:
    def __init__(
        self, database: Database, appending: Appending, interval_seconds: float = NEVER, away_seconds: float = 0.01
    ) -> None:
        pace = Pace(interval_seconds, interval_seconds, away_seconds, away_seconds)
        self.passes = Watched(database, DispatcherOptions(batch=2), appending)
        self.runner = Runner(self.passes, pace)

    async def __aenter__(self) -> "Running":
        self._task = asyncio.ensure_future(self.runner.run())
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.runner.stop()
        await asyncio.wait_for(self._task, SOON)


async def test_the_runner_drains_at_once_then_waits_to_be_rung(
    database: Database, device: int, appending: Appending
) -> None:
    enqueue(database, device, 1, 2, 3)
    async with Running(database, appending) as running:
        drained = [await running.passes.next() for _ in range(3)]
        assert drained == [Outcome(delivered=2), Outcome(delivered=1), Outcome()]
        enqueue(database, device, 4)
        running.runner.ring()
        assert await running.passes.next() == Outcome(delivered=1)


async def test_a_ring_during_a_pass_is_not_lost(database: Database, device: int, appending: Appending) -> None:
    async with Running(database, appending) as running:
        running.passes.ring_during_next = running.runner.ring
        assert await running.passes.next() == Outcome()
        assert await running.passes.next() == Outcome()


async def test_the_runner_looks_unasked_after_its_interval(
    database: Database, device: int, appending: Appending
) -> None:
    async with Running(database, appending, interval_seconds=0.01) as running:
        assert await running.passes.next() == Outcome()
        enqueue(database, device, 1)
        while await running.passes.next() == Outcome():
            pass
        assert published(database, device) == [1]


async def test_the_runner_comes_back_for_a_retry_before_its_interval(
    database: Database, device: int, appending: Appending, clock: ManualClock
) -> None:
    enqueue(database, device, 1)
    appending.unreachable = {device}
    async with Running(database, appending) as running:
        assert await running.passes.next() == Outcome(retried=1)
        appending.unreachable = set()
        clock.advance(0.99)
        while (outcome := await running.passes.next()) == Outcome():
            clock.advance(0.01)
        assert outcome == Outcome(delivered=1)


async def test_rows_behind_one_that_waits_for_its_retry_do_not_keep_the_runner_busy(
    database: Database, device: int, appending: Appending
) -> None:
    enqueue(database, device, 1, 2, 3)
    appending.poisonous = {1}
    running = Running(database, appending)
    assert await running.passes.run_once() == Outcome(retried=1)
    assert await running.runner._idle_seconds() == 1.0


async def test_after_a_pass_that_only_failed_what_lies_beyond_the_batch_is_looked_for_at_once(
    database: Database, device: int, neighbour: int, appending: Appending
) -> None:
    enqueue(database, device, 1, 2)
    enqueue(database, neighbour, 3)
    appending.unreachable = {device}
    async with Running(database, appending) as running:
        assert await running.passes.next() == Outcome(retried=1)
        assert await running.passes.next() == Outcome(delivered=1)


@pytest.mark.parametrize("error", [DatabaseUnavailable("locked"), RuntimeError("unforeseen")])
async def test_the_runner_survives_a_pass_that_failed(
    database: Database, device: int, appending: Appending, error: Exception
) -> None:
    enqueue(database, device, 1)
    async with Running(database, appending, interval_seconds=0.01) as running:
        running.passes.errors.append(error)
        assert await running.passes.next() is error
        assert await running.passes.next() == Outcome(delivered=1)


async def test_a_stopped_runner_ends_though_it_waits(database: Database, appending: Appending) -> None:
    async with Running(database, appending) as running:
        assert await running.passes.next() == Outcome()


async def test_failures_are_said_once_and_so_is_their_end(
    database: Database, device: int, appending: Appending
) -> None:
    enqueue(database, device, 1)
    errors: list[Exception] = [DatabaseUnavailable("away") for _ in range(3)]
    with capture_logs() as lines:
        async with Running(database, appending) as running:
            running.passes.errors += errors
            for _ in errors:
                assert isinstance(await running.passes.next(), DatabaseUnavailable)
            assert await running.passes.next() == Outcome(delivered=1)
            assert await running.passes.next() == Outcome()
    said = [line["event"].removeprefix("[device-outbox] ") for line in lines if line["log_level"] != "debug"]
    assert said == ["the pass failed, it is tried again and again", "delivered", "passes succeed again"]
    assert running.passes.totals.errors == 3


async def test_whoever_rings_does_not_make_a_failing_one_busy(database: Database, appending: Appending) -> None:
    async with Running(database, appending, away_seconds=NEVER) as running:
        running.passes.errors.append(DatabaseUnavailable("away"))
        assert isinstance(await running.passes.next(), DatabaseUnavailable)
        for _ in range(10):
            running.runner.ring()
            await asyncio.sleep(0)
    assert running.passes.outcomes.empty()


async def test_it_looks_soon_after_rows_and_then_less_and_less_often(database: Database, appending: Appending) -> None:
    passes = Watched(database, DispatcherOptions(batch=2), appending)
    runner = Runner(passes, Pace(idle_seconds=1, idle_seconds_max=NEVER))
    waits = []
    for runner._looks in (1, 2, 3):
        waits.append(await runner._idle_seconds())
    assert 0.75 <= waits[0] <= 1 < waits[1] <= 2 < waits[2] <= 4


async def test_a_row_that_somebody_has_locked_is_asked_for_less_and_less_often(
    database: Database, device: int, locking_place: Place
) -> None:
    with closing(locking_place.connect()) as application, locking_place.opened() as source:
        send(locking_place, device, 1)
        application.cursor().execute("SELECT id FROM device_update_outbox FOR UPDATE")
        passes = OutsideDispatcher(database, source, DispatcherOptions(), log.append_all)
        runner = Runner(passes, Pace(idle_seconds_max=1.0))
        waits = []
        for runner._looks in range(1, 7):
            assert await passes.run_once() == Outcome()
            waits.append(await runner._idle_seconds())
        assert waits == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
