"""Live pages: publishes which topics have changed, never the content. The browser then reads its page again.

    commit event ─▶ mark(topic) ─▶ once a second: one number for all changes ─▶ every open stream of that topic
                                                                                └─▶ browser reads its page again

One set of marks serves all pages: a commit costs one entry in a set. Commits are marked even while no stream is open: a
page that was rendered before a commit may open its stream after it.
A stream resumes after the number of the last event that its browser got, so that no change is missed; the number that a
page was rendered with is the first. Access is checked where the page is read, not here.

Invariant: the number of a topic only rises, and a stream gets every rise, once a second at most.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterable

from restante.core.errors import Unavailable

UPDATES, COMMANDS, EVENTS, JOBS, CLOCK = "updates", "commands", "events", "jobs", "clock"
TOPICS = (UPDATES, COMMANDS, EVENTS, JOBS, CLOCK)

STREAMS_MAX = 200
STREAMS_PER_PERSON_MAX = 20
STREAM_SECONDS = 300.0
KEEP_ALIVE_SECONDS = 20.0
# How often the topic `clock` changes: for pages that show rates.
CLOCK_TICKS = 5
# How often every topic counts as changed: some changes, such as last polls, have no commit event.
REFRESH_TICKS = 10
RETRY_MS = 2000
RETRY_SECONDS = 5


class Live:
    def __init__(self) -> None:
        # Distinguishes the numbers of this process from those of another one or of a former start.
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._numbers = dict.fromkeys(TOPICS, 0)
        self._marked: set[str] = set()
        # What wakes each open stream, and whose stream it is.
        self._streams: dict[asyncio.Event, int] = {}
        self._ticks = 0
        self._is_closed = False

    @property
    def stream_count(self) -> int:
        return len(self._streams)

    @property
    def position(self) -> str:
        """The number of the newest change, for a page that is rendered now. Marks that are not counted yet come after
        it, so the page may get the notice of a change that it already shows, and never misses one."""
        return f"{self._epoch}-{self._number}"

    def mark(self, topic: str) -> None:
        self._marked.add(topic)

    def mark_all(self) -> None:
        self._marked.update(TOPICS)

    def tick(self) -> None:
        """Called every second: count the changes since the last time, and wake the streams."""
        self._ticks += 1
        if self._streams and self._ticks % CLOCK_TICKS == 0:
            self.mark(CLOCK)
        if self._streams and self._ticks % REFRESH_TICKS == 0:
            self.mark_all()
        if not self._marked:
            return
        self._number += 1
        self._numbers.update(dict.fromkeys(self._marked, self._number))
        self._marked.clear()
        for woken in self._streams:
            woken.set()

    def close(self) -> None:
        """End every stream, and open none from now on."""
        self._is_closed = True
        for woken in self._streams:
            woken.set()

    def open(self, person_id: int, topics: Iterable[str], position: str) -> AsyncIterator[bytes]:
        """A stream of Server-Sent Events about these topics, after the position, for a page of this person.

        It ends after some minutes: the browser opens the next one, if the session is still valid."""
        own = sum(owner == person_id for owner in self._streams.values())
        if self._is_closed or len(self._streams) >= STREAMS_MAX or own >= STREAMS_PER_PERSON_MAX:
            raise Unavailable("too many live pages are open", retry_after_seconds=RETRY_SECONDS)
        return self._stream(person_id, [topic for topic in topics if topic in TOPICS], self._number_of(position))

    def _number_of(self, position: str) -> int:
        epoch, _, number = position.partition("-")
        is_known = epoch == self._epoch and number.isascii() and number.isdecimal() and len(number) < 19
        # A position of another process says nothing: the page is read again.
        return int(number) if is_known else -1

    async def _stream(self, person_id: int, topics: list[str], seen: int) -> AsyncIterator[bytes]:
        woken = asyncio.Event()
        self._streams[woken] = person_id
        end = asyncio.get_running_loop().time() + STREAM_SECONDS
        try:
            yield b"retry: %d\n\n" % RETRY_MS
            while not self._is_closed and asyncio.get_running_loop().time() < end:
                newest = max((self._numbers[topic] for topic in topics), default=0)
                if newest > seen or seen < 0:
                    seen = self._number
                    yield b"event: changed\nid: %b\ndata: \n\n" % self.position.encode()
                woken.clear()
                try:
                    async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                        await woken.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._streams.pop(woken, None)
