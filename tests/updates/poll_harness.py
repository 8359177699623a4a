"""Polls for updates without HTTP: a poll that keeps its response, a reader that can be paused, and the poll object."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from restante.core.cursor import Position
from restante.core.errors import RestanteError
from restante.database.database import Database
from restante.delivery.device_presence import DevicePresence
from restante.delivery.log import log
from restante.delivery.log.log import SignalsPublished
from restante.delivery.log.log_reader import LogReader, ReadResult
from restante.server.config import options
from restante.server.config.settings import Settings
from restante.updates.polling.poll import DevicePoll, PollOptions, PollResult, UpdatesPoll
from restante.updates.polling.routes import poll_response
from restante.web.response import ApiResponse
from tests.defaults import append_signals
from tests.delivery.rows import signal

SOON = 10.0


def poll_options(**changed: Any) -> PollOptions:
    """The options of the default settings, with some changed."""
    return replace(options.poll_options(Settings()), **changed)


QUICK = poll_options(coalesce_seconds=0.0)
DEVICE, OTHER_DEVICE = 7, 8


class PollCall:
    """One poll and its response; a second response fails the test."""

    def __init__(self) -> None:
        self.replied: asyncio.Future[ApiResponse] = asyncio.get_running_loop().create_future()
        self.parked: DevicePoll | None = None

    def __call__(self, result: PollResult | RestanteError) -> None:
        self.send(poll_response(result))

    def send(self, response: ApiResponse) -> None:
        assert not self.replied.done(), "a second response"
        self.replied.set_result(response)

    @property
    def is_finished(self) -> bool:
        return self.replied.done()

    async def response(self) -> ApiResponse:
        return await asyncio.wait_for(asyncio.shield(self.replied), SOON)

    @property
    def status(self) -> int:
        return self.replied.result().status

    async def signals(self) -> list[Any]:
        """The subjects of the signals in the response."""
        return subjects_of(await self.response())


def subjects_of(response: ApiResponse) -> list[Any]:
    assert response.status == 200, response
    return [signal["ref"]["about"] for signal in json.loads(response.body)["data"]["signals"]]


def header(response: ApiResponse, name: bytes) -> bytes:
    (value,) = (value for key, value in response.headers if key == name)
    return value


class PausedReader(LogReader):
    """Reads at once, but while paused hands over the result only on `resume`: anything before that happens during the
    read."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._reads = database
        self.is_paused = False
        self.paused: list[tuple[Any, ReadResult]] = []
        self.reads = 0

    def read(self, device_id: int, cursor: Position | None, limit: int, done: Any) -> None:
        self.reads += 1
        result: ReadResult
        try:
            result = self._reads.read_now(log.read, device_id, cursor, limit)
        except RestanteError as error:
            result = error
        self.paused.append((done, result))
        if not self.is_paused:
            self.resume()

    def resume(self, instead: Exception | None = None) -> None:
        """Hand over the results. Reads that this causes are paused again, if reads are paused."""
        paused, self.paused = self.paused, []
        for done, result in paused:
            done(result if instead is None else instead)


class UpdatesHarness:
    """A poll object on a real database; it handles commit events as the server does."""

    def __init__(self, database: Database, options: PollOptions = QUICK, reader: LogReader | None = None) -> None:
        self.database = database
        self.poll = UpdatesPoll(reader or LogReader(database), DevicePresence(database), options)
        self.handles_commits = True
        self._loop = asyncio.get_running_loop()
        database.on_commit(self._pass_on)

    def _pass_on(self, events: list[object]) -> None:
        self._loop.call_soon_threadsafe(self._handle_commit_events, events)

    def _handle_commit_events(self, events: Iterable[object]) -> None:
        for event in events:
            if isinstance(event, SignalsPublished) and self.handles_commits:
                self.poll.published_here(event)

    async def publish(self, *subjects: Any, device: int = DEVICE, keep: int = 1000) -> bytes:
        """Publish signals; return the cursor after them. The poll has handled the commit when this returns."""
        published = await self.database.write(append_signals, device, [signal(one) for one in subjects], keep)
        return str(published.head.newest).encode()

    def start(self, cursor: bytes | None, *, limit: int = 20, waits: bool = True, device: int = DEVICE) -> PollCall:
        client = PollCall()
        client.parked = self.poll.start(device, cursor, limit, waits, client)
        return client

    async def parked(self, cursor: bytes | None = None, **how: Any) -> PollCall:
        """Start a poll that waits, and wait until it is parked."""
        client = self.start(cursor, **how)
        while client.parked not in self.waiting(how.get("device", DEVICE)):
            assert not client.is_finished
            await asyncio.sleep(0)
        return client

    def waiting(self, device: int = DEVICE) -> list[DevicePoll]:
        return self.poll.waiters.waiters_of(device)

    def expire(self, client: PollCall) -> None:
        assert client.parked is not None
        self.poll.expire(client.parked)

    def disconnect(self, client: PollCall) -> None:
        assert client.parked is not None
        self.poll.disconnect(client.parked)
