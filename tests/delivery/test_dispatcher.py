import asyncio
from collections.abc import Mapping

import pytest
from structlog.testing import capture_logs

from restante.core.backoff import Backoff
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery import log, outbox
from restante.delivery.dispatcher import Dispatcher, DispatcherOptions
from restante.delivery.log import Published
from restante.delivery.outbox import Outcome
from restante.delivery.signals import Signal
from tests.conftest import ManualClock
from tests.delivery.rows import enqueue, published, row

SOON = 10.0
NEVER = 3600.0


class Appending:
    """The real log behind a line that can be cut: for devices, and for signals about certain things."""

    def __init__(self) -> None:
        self.unreachable: set[int] = set()
        self.poisonous: set[object] = set()
        self.appended: list[tuple[int, object]] = []

    def __call__(self, conn: Connection, signals: Mapping[int, list[Signal]]) -> None:
        log.append_all(conn, signals)
        appended = [(device_id, signal.ref["about"]) for device_id, own in signals.items() for signal in own]
        self.appended += appended
        if self.unreachable & signals.keys() or self.poisonous & {about for _, about in appended}:
            raise ConnectionError("the line is cut")


@pytest.fixture
def appending() -> Appending:
    return Appending()


def dispatcher(database: Database, appending: Appending, *, batch: int = 100, attempts_max: int = 10) -> Dispatcher:
    return Dispatcher(database, DispatcherOptions(batch=batch, backoff=Backoff(attempts_max=attempts_max)), appending)


async def test_a_pass_delivers_what_waits(database: Database, device: int, appending: Appending) -> None:
    enqueue(database, device, 1, 2)
    moving = dispatcher(database, appending)
    assert await moving.run_once() == Outcome(delivered=2)
    assert await moving.run_once() == Outcome()
    assert published(database, device) == [1, 2]
    assert (moving.totals.passes, moving.totals.delivered) == (1, 2)


async def test_a_pass_takes_no_more_than_a_batch(database: Database, device: int, appending: Appending) -> None:
    enqueue(database, device, *range(5))
    moving = dispatcher(database, appending, batch=2)
    assert [(await moving.run_once()).delivered for _ in range(4)] == [2, 2, 1, 0]
    assert published(database, device) == [0, 1, 2, 3, 4]


async def test_one_device_out_of_reach_costs_no_other_anything(
    database: Database, device: int, neighbour: int, appending: Appending
) -> None:
    for about in range(6):
        enqueue(database, (device, neighbour)[about % 2], about)
    appending.unreachable = {device}
    moving = dispatcher(database, appending)
    assert await moving.run_once() == Outcome(delivered=3, retried=1)
    assert (published(database, device), published(database, neighbour)) == ([], [1, 3, 5])
    assert [row(database, row_id).attempts for row_id in (1, 3, 5)] == [1, 0, 0]
    assert [row(database, row_id).claimed_by for row_id in (1, 3, 5)] == [None, None, None]


async def test_in_a_device_what_comes_after_a_failure_waits_for_it(
    database: Database, device: int, clock: ManualClock, appending: Appending
) -> None:
    enqueue(database, device, 1, 2, 3)
    appending.poisonous = {2}
    moving = dispatcher(database, appending)
    assert await moving.run_once() == Outcome(delivered=1, retried=1)
    assert await moving.run_once() == Outcome()
    assert published(database, device) == [1]
    appending.poisonous = set()
    clock.advance(1)
    assert await moving.run_once() == Outcome(delivered=2)
    assert published(database, device) == [1, 2, 3]


async def test_a_row_is_given_up_after_its_last_attempt_and_the_next_go_on(
    database: Database, device: int, clock: ManualClock, appending: Appending
) -> None:
    enqueue(database, device, 1, 2)
    appending.poisonous = {1}
    moving = dispatcher(database, appending, attempts_max=3)
    outcomes = []
    for _ in range(3):
        outcomes.append(await moving.run_once())
        clock.advance(10)
    assert outcomes == [Outcome(retried=1), Outcome(retried=1), Outcome(failed=1)]
    assert row(database, 1).failure_reason == "ConnectionError: the line is cut"
    assert await moving.run_once() == Outcome(delivered=1)
    assert published(database, device) == [2]
    assert (moving.totals.retried, moving.totals.failed) == (2, 1)


async def test_a_lease_lost_while_publishing_hurts_nobody(database: Database, device: int, clock: ManualClock) -> None:
    enqueue(database, device, 1, 2)
    stolen: list[Outcome] = []
    thief = dispatcher(database, Appending())

    class Slow(Dispatcher):
        async def _deliver_one_by_one(self) -> Outcome:
            # Time passes after the failure of the batch: the lease is another's, who delivers.
            clock.advance(31)
            stolen.append(await thief.run_once())
            return await super()._deliver_one_by_one()

    cut = Appending()
    cut.unreachable = {device}
    late = Slow(database, DispatcherOptions(), cut)
    assert await late.run_once() == Outcome()
    assert stolen == [Outcome(delivered=2)]
    assert published(database, device) == [1, 2]
    assert [row(database, row_id).status for row_id in (1, 2)] == ["DELIVERED", "DELIVERED"]


async def test_a_lease_lost_between_failure_and_putting_back_hurts_nobody(
    database: Database, device: int, clock: ManualClock
) -> None:
    enqueue(database, device, 1, 2)
    cut, whole = Appending(), Appending()
    cut.unreachable = {device}
    thief = dispatcher(database, whole)

    class Slow(Dispatcher):
        async def _put_back(self, row: outbox.HeldRow, error: Exception) -> Outcome:
            clock.advance(31)
            await thief.run_once()
            return await super()._put_back(row, error)

    late = Slow(database, DispatcherOptions(backoff=Backoff(attempts_max=1)), cut)
    assert await late.run_once() == Outcome()
    assert [row(database, row_id).status for row_id in (1, 2)] == ["DELIVERED", "DELIVERED"]
    assert published(database, device) == [1, 2]


async def test_a_dispatcher_that_died_with_a_batch_is_followed_by_another(
    database: Database, device: int, clock: ManualClock, appending: Appending
) -> None:
    enqueue(database, device, 1)
    await database.write(outbox.claim, "the dead", 30.0, 100)
    moving = dispatcher(database, appending)
    assert await moving.run_once() == Outcome()
    clock.advance(30)
    assert await moving.run_once() == Outcome(delivered=1)


async def test_two_dispatchers_at_once_publish_everything_once_and_in_order(
    database: Database, device: int, neighbour: int
) -> None:
    for about in range(40):
        enqueue(database, (device, neighbour)[about % 2], about)
    appending = Appending()
    moving = [dispatcher(database, appending, batch=3) for _ in range(2)]
    assert moving[0].name != moving[1].name
    while any(outcome.delivered for outcome in await asyncio.gather(*(one.run_once() for one in moving))):
        pass
    assert published(database, device) == list(range(0, 40, 2))
    assert published(database, neighbour) == list(range(1, 40, 2))


async def test_log_lines_carry_the_prefix(database: Database, device: int, appending: Appending) -> None:
    enqueue(database, device, 1, 2)
    appending.poisonous = {2}
    with capture_logs() as lines:
        await dispatcher(database, appending, attempts_max=1).run_once()
    assert lines
    assert all(line["event"].startswith("[device-outbox] ") for line in lines)
    levels = {line["event"].removeprefix("[device-outbox] "): line["log_level"] for line in lines}
    assert (levels["delivered"], levels["a row failed"], levels["given up"]) == ("info", "error", "error")


async def test_what_was_delivered_was_announced(database: Database, device: int, appending: Appending) -> None:
    heard: list[object] = []
    database.on_commit(heard.extend)
    enqueue(database, device, 1)
    await dispatcher(database, appending).run_once()
    (event,) = (event for event in heard if isinstance(event, Published))
    assert (event.device_id, event.head.newest.n) == (device, 1)
