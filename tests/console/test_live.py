"""The stream of live pages: what changed, coalesced, resumable, bounded."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from restante.console.live import (
    CLOCK_TICKS,
    COMMANDS,
    EVENTS,
    REFRESH_TICKS,
    STREAMS_MAX,
    STREAMS_PER_PERSON_MAX,
    UPDATES,
    Live,
)
from restante.core.errors import Unavailable

CHANGED = b"event: changed\n"


async def next_part(stream: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(30):
        return await anext(stream)


async def opened(live: Live, *topics: str, position: str | None = None, person_id: int = 1) -> AsyncIterator[bytes]:
    stream = live.open(person_id, topics, live.position if position is None else position)
    assert (await next_part(stream)).startswith(b"retry: ")
    return stream


async def waiting(stream: AsyncIterator[bytes]) -> "asyncio.Future[bytes]":
    """The next part, asked for; the stream waits when this returns."""
    part = asyncio.ensure_future(anext(stream))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not part.done()
    return part


async def test_changes_of_a_second_are_one_event() -> None:
    live = Live()
    stream = await opened(live, UPDATES)
    part = await waiting(stream)
    for _ in range(100):
        live.mark(UPDATES)
    live.tick()
    assert (await part).startswith(CHANGED)
    assert not (await waiting(stream)).done()


async def test_stream_gets_its_topics_only() -> None:
    live = Live()
    updates, events = await opened(live, UPDATES), await opened(live, EVENTS)
    told, untold = await waiting(updates), await waiting(events)
    live.mark(UPDATES)
    live.tick()
    assert (await told).startswith(CHANGED)
    await asyncio.sleep(0)
    assert not untold.done()


async def test_change_between_page_and_stream_is_not_missed_by_the_first_page() -> None:
    live = Live()
    rendered_at = live.position
    live.mark(COMMANDS)
    live.tick()
    late = await opened(live, COMMANDS, position=rendered_at)
    assert (await next_part(late)).startswith(CHANGED)
    resumed = await opened(live, COMMANDS, position=live.position)
    await waiting(resumed)


async def test_position_of_another_process_makes_the_page_read_again() -> None:
    live = Live()
    for position in ("", "garbage", "0123abcd-5", f"{Live().position}", "-" * 500):
        stream = await opened(live, UPDATES, position=position)
        assert (await next_part(stream)).startswith(CHANGED)


async def test_passing_time_marks_nothing_while_no_page_is_open() -> None:
    live = Live()
    before = live.position
    for _ in range(CLOCK_TICKS * REFRESH_TICKS):
        live.tick()
    assert live.position == before
    stream = await opened(live, UPDATES)
    part = await waiting(stream)
    for _ in range(REFRESH_TICKS):
        live.tick()
    assert (await part).startswith(CHANGED)


async def test_number_of_streams_is_bounded_and_closing_ends_them() -> None:
    live = Live()
    people = range(STREAMS_MAX // STREAMS_PER_PERSON_MAX)
    streams = [await opened(live, UPDATES, person_id=each) for each in people for _ in range(STREAMS_PER_PERSON_MAX)]
    with pytest.raises(Unavailable):
        live.open(len(people), [UPDATES], live.position)
    waits = [await waiting(stream) for stream in streams[:2]]
    live.close()
    for part in waits:
        with pytest.raises(StopAsyncIteration):
            await part
    with pytest.raises(Unavailable):
        live.open(len(people), [UPDATES], live.position)


async def test_one_person_does_not_use_up_the_streams_of_others() -> None:
    live = Live()
    streams = [await opened(live, UPDATES, person_id=1) for _ in range(STREAMS_PER_PERSON_MAX)]
    with pytest.raises(Unavailable):
        live.open(1, [UPDATES], live.position)
    await opened(live, UPDATES, person_id=2)
    assert live.stream_count == len(streams) + 1
