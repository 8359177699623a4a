"""Counts beside lists: quick ones are made for every page, slow ones are kept and delay no page twice."""

import asyncio

import pytest

from restante.console.counts import FRESH_SECONDS, QUICK_SECONDS, Counts
from restante.console.live import UPDATES, Live


class Source:
    """A count that takes `seconds` of its clock, and rises each time. It ends when the test lets it."""

    def __init__(self, seconds: float) -> None:
        self.now = 0.0
        self.made = 0
        self.go_on = asyncio.Event()
        self._seconds = seconds

    def clock(self) -> float:
        return self.now

    async def count(self) -> int:
        await self.go_on.wait()
        self.now += self._seconds
        self.made += 1
        return self.made


def counts_of(source: Source, live: Live | None = None, wait_seconds: float = 60.0) -> Counts[int]:
    return Counts(live or Live(), UPDATES, wait_seconds, source.clock)


async def test_quick_count_is_made_for_every_page() -> None:
    source = Source(QUICK_SECONDS / 2)
    counts = counts_of(source)
    source.go_on.set()
    assert [await counts.get("key", source.count) for _ in range(3)] == [1, 2, 3]


async def test_slow_count_is_shared_until_it_is_old() -> None:
    source = Source(1.0)
    counts = counts_of(source)
    source.go_on.set()
    assert [await counts.get("key", source.count) for _ in range(3)] == [1, 1, 1]
    assert await counts.get("other", source.count) == 2
    source.now += FRESH_SECONDS
    # The page gets the old one at once; the next page gets the new one.
    assert await counts.get("key", source.count) == 1
    while source.made < 3:
        await asyncio.sleep(0)
    assert await counts.get("key", source.count) == 3


async def test_page_is_shown_without_a_slow_count_and_read_again_when_it_is_ready() -> None:
    live = Live()
    stream = live.open(1, [UPDATES], live.position)
    assert (await anext(stream)).startswith(b"retry")
    part = asyncio.ensure_future(anext(stream))
    source = Source(1.0)
    counts = counts_of(source, live, wait_seconds=0)
    assert await counts.get("key", source.count) is None
    source.go_on.set()
    while not part.done():
        await asyncio.sleep(0)
        live.tick()
    assert b"event: changed" in part.result()
    assert await counts.get("key", source.count) == 1


async def test_pages_that_wait_share_one_count() -> None:
    source = Source(1.0)
    counts = counts_of(source)
    waiting = [asyncio.ensure_future(counts.get("key", source.count)) for _ in range(5)]
    await asyncio.sleep(0)
    source.go_on.set()
    assert await asyncio.gather(*waiting) == [1] * 5


async def test_error_reaches_the_page_that_waits_and_the_next_page_counts_again() -> None:
    async def fail() -> int:
        raise ValueError("the database is away")

    source = Source(1.0)
    counts = counts_of(source)
    with pytest.raises(ValueError, match="away"):
        await counts.get("key", fail)
    source.go_on.set()
    assert await counts.get("key", source.count) == 1
