"""Counts in steps: kept while they are long, counted again beside their readers, one at a time."""

import asyncio
from collections.abc import Callable

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.database.lists.long_counts import (
    FRESH_SECONDS,
    KEPT_SECONDS,
    QUICK_SECONDS,
    REST_FACTOR,
    Counting,
    LongCounts,
    OneRead,
)
from tests.conftest import ManualClock
from tests.database.notes_table import add, everything


class Reads:
    """Stands for a database: counts the steps, and stops them while it is closed."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self.open = asyncio.Event()
        self.open.set()
        self.steps = 0
        self.at_once = self.most_at_once = 0

    async def __call__(self, step: Callable[[Connection], bool]) -> bool:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        await self.open.wait()
        self.steps += 1
        self.at_once -= 1
        return step(self._conn)


class Scripted:
    """A counting of so many steps."""

    def __init__(self, steps: int, result: int, error: Exception | None = None) -> None:
        self._steps, self._result, self._error = steps, result, error

    def step(self, _conn: Connection) -> bool:
        self._steps -= 1
        if self._error is not None and self._steps == 0:
            raise self._error
        return self._steps > 0

    def result(self) -> int:
        return self._result


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def reads() -> Reads:
    return Reads(None)  # type: ignore[arg-type]


@pytest.fixture
def clock_seconds() -> Clock:
    return Clock()


@pytest.fixture
def counts(reads: Reads, clock_seconds: Clock) -> LongCounts:
    return LongCounts(reads, clock_seconds)


async def test_count_of_one_step_is_always_counted(counts: LongCounts) -> None:
    assert await counts.count("key", lambda: Scripted(1, 1)) == 1
    assert await counts.count("key", lambda: Scripted(1, 2)) == 2


async def test_long_count_is_kept_for_its_key(counts: LongCounts, reads: Reads) -> None:
    assert await counts.count("key", lambda: Scripted(4, 1)) == 1
    assert await counts.count("key", lambda: Scripted(4, 2)) == 1
    assert await counts.count("another key", lambda: Scripted(4, 3)) == 3
    assert reads.steps == 8


async def test_old_count_is_answered_at_once_while_it_is_counted_again(
    counts: LongCounts, reads: Reads, clock_seconds: Clock
) -> None:
    await counts.count("key", lambda: Scripted(2, 1))
    clock_seconds.now = FRESH_SECONDS + 1
    assert await counts.count("key", lambda: Scripted(2, 2)) == 1
    while reads.steps < 4:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await counts.count("key", lambda: Scripted(2, 3)) == 2
    assert reads.steps == 4


async def test_slow_count_rests_longer(counts: LongCounts, reads: Reads, clock_seconds: Clock) -> None:
    reads.open.clear()
    waiting = asyncio.create_task(counts.count("key", lambda: Scripted(2, 1)))
    await asyncio.sleep(0)
    clock_seconds.now = 10.0
    reads.open.set()
    assert await waiting == 1
    clock_seconds.now += 10.0 * REST_FACTOR - 1
    assert await counts.count("key", lambda: Scripted(2, 2)) == 1
    assert reads.steps == 2


async def test_very_old_count_is_not_answered(counts: LongCounts, clock_seconds: Clock) -> None:
    await counts.count("key", lambda: Scripted(2, 1))
    clock_seconds.now = KEPT_SECONDS + 1
    assert await counts.count("key", lambda: Scripted(2, 2)) == 2


async def test_callers_at_the_same_time_share_one_count(counts: LongCounts, reads: Reads) -> None:
    found = await asyncio.gather(*(counts.count("key", lambda: Scripted(5, 1)) for _ in range(10)))
    assert found == [1] * 10
    # Each of them made its first step; one went on.
    assert reads.steps == 10 + 4


async def test_one_long_count_runs_at_a_time_and_short_ones_do_not_wait(counts: LongCounts, reads: Reads) -> None:
    long = [asyncio.create_task(counts.count(number, lambda: Scripted(20, 1))) for number in range(5)]
    while reads.steps < 10:
        await asyncio.sleep(0)
    reads.most_at_once = reads.at_once
    assert await counts.count("short", lambda: Scripted(1, 7)) == 7
    assert not all(task.done() for task in long)
    assert await asyncio.gather(*long) == [1] * 5
    assert reads.most_at_once == 2


async def test_failed_count_raises_and_the_next_one_counts(counts: LongCounts) -> None:
    with pytest.raises(DatabaseUnavailable):
        await counts.count("key", lambda: Scripted(3, 1, DatabaseUnavailable("gone")))
    assert await counts.count("key", lambda: Scripted(3, 2)) == 2


async def test_caller_does_not_wait_longer_than_a_limit(reads: Reads, clock_seconds: Clock) -> None:
    counts = LongCounts(reads, clock_seconds, wait_seconds=0)
    # So far, and when it has ended.
    assert await counts.count("key", lambda: Scripted(3, 1)) == 1
    assert reads.steps < 3
    while reads.steps < 3:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await counts.count("key", lambda: Scripted(3, 2)) == 1
    assert reads.steps == 3


async def test_cancelled_caller_does_not_end_the_count_of_others(counts: LongCounts, reads: Reads) -> None:
    first = asyncio.create_task(counts.count("key", lambda: Scripted(5, 1)))
    while reads.steps < 2:
        await asyncio.sleep(0)
    second = asyncio.create_task(counts.count("key", lambda: Scripted(5, 2)))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 1


class Page:
    """Stands for a page: reads the counts that it shows, and waits at most `wait_seconds` for one."""

    def __init__(self, counts: LongCounts, wait_seconds: float = 60.0) -> None:
        self._counts = counts
        self._wait_seconds = wait_seconds
        self.changed = asyncio.Event()

    async def get(self, counting: Counting[int], key: str = "key") -> int | None:
        return await self._counts.recent(key, lambda: counting, self.changed.set, self._wait_seconds)


class Slow(Scripted):
    """A counting whose steps each take `seconds` of the clock."""

    def __init__(self, steps: int, result: int, clock: Clock, seconds: float) -> None:
        super().__init__(steps, result)
        self._clock, self._seconds = clock, seconds

    def step(self, conn: Connection) -> bool:
        self._clock.now += self._seconds
        return super().step(conn)


async def test_page_gets_a_new_quick_count_every_time(counts: LongCounts, clock_seconds: Clock) -> None:
    page = Page(counts)
    quick = [Slow(1, number, clock_seconds, QUICK_SECONDS / 2) for number in range(3)]
    assert [await page.get(each) for each in quick] == [0, 1, 2]


@pytest.mark.parametrize("steps", [1, 3])
async def test_page_gets_the_last_slow_count_until_it_is_old(
    counts: LongCounts, clock_seconds: Clock, steps: int
) -> None:
    page, seconds = Page(counts), FRESH_SECONDS / REST_FACTOR / steps
    assert [await page.get(Slow(steps, number, clock_seconds, seconds)) for number in (1, 2, 3)] == [1, 1, 1]
    assert await page.get(Slow(steps, 4, clock_seconds, seconds), "other") == 4
    clock_seconds.now += FRESH_SECONDS + 1
    # The page gets the old one at once; the next page gets the new one.
    assert await page.get(Slow(steps, 5, clock_seconds, seconds)) == 1
    await page.changed.wait()
    assert await page.get(Slow(steps, 6, clock_seconds, seconds)) == 5


async def test_page_gets_no_count_that_takes_too_long_and_is_notified_when_it_is_ready(
    counts: LongCounts, reads: Reads, clock_seconds: Clock
) -> None:
    page = Page(counts, wait_seconds=0)
    reads.open.clear()
    assert await page.get(Slow(3, 1, clock_seconds, 1.0)) is None
    assert not page.changed.is_set()
    reads.open.set()
    await page.changed.wait()
    assert await page.get(Slow(3, 2, clock_seconds, 1.0)) == 1


async def test_page_is_not_notified_of_the_same_count(counts: LongCounts, clock_seconds: Clock, reads: Reads) -> None:
    page = Page(counts)
    await page.get(Scripted(2, 1))
    clock_seconds.now += FRESH_SECONDS
    assert await page.get(Scripted(2, 1)) == 1
    while reads.steps < 4:
        await asyncio.sleep(0)
    assert await page.get(Scripted(2, 2)) == 1
    assert not page.changed.is_set()


async def test_pages_that_wait_share_one_count(counts: LongCounts, reads: Reads) -> None:
    page = Page(counts)
    reads.open.clear()
    waiting = [asyncio.create_task(page.get(Scripted(2, 1))) for _ in range(5)]
    await asyncio.sleep(0)
    reads.open.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert reads.steps == 2


async def test_failed_count_raises_for_the_page_that_waits_and_the_next_page_counts(counts: LongCounts) -> None:
    page = Page(counts)
    with pytest.raises(DatabaseUnavailable):
        await page.get(Scripted(1, 1, DatabaseUnavailable("gone")))
    assert await page.get(Scripted(1, 2)) == 2


async def test_failed_count_leaves_the_last_one_to_the_page(counts: LongCounts, clock_seconds: Clock) -> None:
    page = Page(counts)
    await page.get(Scripted(2, 1))
    for _ in range(2):
        clock_seconds.now += FRESH_SECONDS
        assert await page.get(Scripted(2, 2, DatabaseUnavailable("gone"))) == 1


async def test_page_and_exact_callers_share_long_counts(counts: LongCounts, reads: Reads) -> None:
    page = Page(counts)
    assert await page.get(Scripted(4, 1)) == 1
    assert await counts.count("key", lambda: Scripted(4, 2)) == 1
    assert await counts.count("other", lambda: Scripted(4, 3)) == 3
    assert await page.get(Scripted(4, 4), "other") == 3
    assert reads.steps == 8


async def test_exact_caller_does_not_get_a_count_of_one_step_that_began_before(
    counts: LongCounts, reads: Reads, clock_seconds: Clock
) -> None:
    page = Page(counts)
    reads.open.clear()
    earlier = asyncio.create_task(page.get(Slow(1, 1, clock_seconds, 1.0)))
    await asyncio.sleep(0)
    exact = asyncio.create_task(counts.count("key", lambda: Slow(1, 2, clock_seconds, 1.0)))
    reads.open.set()
    assert (await earlier, await exact) == (1, 2)
    # The page shows the last one, although it took long; who needs the exact one gets a new one.
    assert await page.get(Scripted(1, 3)) == 2
    assert await counts.count("key", lambda: Scripted(1, 4)) == 4


async def test_count_in_one_read(database: Database) -> None:
    await database.write(add, "a")
    changed = asyncio.Event()
    counting = OneRead(lambda conn: len(everything(conn)))
    assert await database.recent_count("notes", lambda: counting, changed.set, 60.0) == 1


async def test_database_counts_in_reads_of_its_own(database: Database, clock: ManualClock) -> None:
    class Notes:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def step(self, conn: Connection) -> bool:
            self.seen.append(len(everything(conn)))
            return len(self.seen) < 3

        def result(self) -> list[int]:
            return self.seen

    await database.write(add, "a")
    assert await database.count("notes", Notes) == [1, 1, 1]
