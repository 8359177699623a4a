"""A fleet of devices on the client's core: each polls once, and again after `Retry-After` if the server is busy.

The devices share a number of places: a device takes one, polls, and leaves it to the next. A place is a connection that
stays open, or is for a new connection of each device.
"""

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

RETRY_SECONDS = 0.05
_RETRY_AFTER = re.compile(rb"retry-after: (\d+)", re.IGNORECASE)
_INTERVAL = re.compile(rb"x-poll-interval: (\d+)", re.IGNORECASE)


class Fleet:
    """Polls for each of the devices until all were answered. All of them want to poll from the start on."""

    def __init__(self, port: int, tokens: Sequence[bytes], places: int, *, new_connections: bool) -> None:
        self._port = port
        self._tail = b'\r\nIf-None-Match: "0-0"\r\nUser-Agent: bench\r\n'
        self._tail += b"Connection: close\r\n\r\n" if new_connections else b"\r\n"
        self._waiting = deque(tokens)
        self._left = len(tokens)
        self._places = min(places, len(tokens))
        self._taken = 0
        self.new_connections = new_connections
        self.waits: list[float] = []
        self.retry_after: Counter[int] = Counter()
        self.intervals: Counter[int] = Counter()
        self.not_connected = 0

    async def run(self, seconds_max: float | None = None) -> float:
        """Returns the seconds until the last device was answered, at most the given ones."""
        self._loop = asyncio.get_running_loop()
        self._finished: asyncio.Future[None] = self._loop.create_future()
        self._started = time.perf_counter()
        for _ in range(self._places):
            self._connect()
        await asyncio.wait([self._finished], timeout=seconds_max)
        if self._finished.done():
            self._finished.result()
        return time.perf_counter() - self._started

    def next_request(self) -> bytes | None:
        if not self._waiting:
            return None
        self.current = self._waiting.popleft()
        return self.request_of(self.current)

    def request_of(self, token: bytes) -> bytes:
        head = b"GET /apiv1/devices/self/updates HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        return head + token + self._tail

    def answered(self, token: bytes, response: bytes) -> None:
        if response.startswith(b"HTTP/1.1 204"):
            self.waits.append(time.perf_counter() - self._started)
            found = _INTERVAL.search(response)
            if found is not None:
                self.intervals[int(found[1])] += 1
            self._left -= 1
            if not self._left and not self._finished.done():
                self._finished.set_result(None)
            return
        found = _RETRY_AFTER.search(response)
        if found is None:
            self._finished.set_exception(RuntimeError(repr(response)))
            return
        seconds = int(found[1])
        self.retry_after[seconds] += 1
        self._loop.call_later(seconds, self._retry, token)

    def unanswered(self, token: bytes) -> None:
        """The server is down: devices try again soon."""
        self.not_connected += 1
        self._loop.call_later(RETRY_SECONDS, self._retry, token)

    def connection_ended(self) -> None:
        """Gives the place to the next device."""
        self._taken -= 1
        if self._waiting:
            self._connect()

    def _retry(self, token: bytes) -> None:
        self._waiting.append(token)
        if self._taken < self._places:
            self._connect()

    def _connect(self) -> None:
        self._taken += 1
        self._loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            await self._loop.create_connection(lambda: _Device(self), "127.0.0.1", self._port)
        except OSError:
            self.not_connected += 1
            self._taken -= 1
            self._loop.call_later(RETRY_SECONDS, self._connect)


class _Device(asyncio.Protocol):
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._token: bytes | None = None
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._poll()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.startswith(b"HTTP/1.1 204") and self._fleet.new_connections:
            return  # complete when the connection is closed
        if self._received.endswith(b"\r\n\r\n"):
            self._end()
            if not self._fleet.new_connections:
                self._poll()

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._token is not None:
            if self._received:
                self._end()
            else:
                self._fleet.unanswered(self._token)
        self._fleet.connection_ended()

    def _poll(self) -> None:
        request = self._fleet.next_request()
        if request is None:
            self._transport.close()
            return
        self._token = self._fleet.current
        self._transport.write(request)

    def _end(self) -> None:
        token, self._token = self._token, None
        response, self._received = self._received, b""
        if token is not None:
            self._fleet.answered(token, response)
