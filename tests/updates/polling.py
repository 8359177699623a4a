"""Polls without HTTP: clients, a reader that can be held up, and a post office that hears its own commits."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from restante.core.cursor import Position
from restante.core.errors import RestanteError
from restante.database.database import Database
from restante.delivery import log
from restante.delivery.log import Published
from restante.delivery.log_reader import LogReader, ReadResult
from restante.delivery.presence import Presence
from restante.updates.poll import ParkedPoll, Poll, PollOptions
from restante.web.answer import Answer
from tests.delivery.rows import signal

SOON = 10.0
QUICK = PollOptions(coalesce_seconds=0.0)
DEVICE, NEIGHBOUR = 7, 8


class Client:
    """One poll and its answer, of which there may be only one."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.parked: ParkedPoll | None = None

    def __call__(self, answer: Answer) -> None:
        assert not self.answered.done(), "answered twice"
        self.answered.set_result(answer)

    @property
    def is_answered(self) -> bool:
        return self.answered.done()

    async def answer(self) -> Answer:
        return await asyncio.wait_for(asyncio.shield(self.answered), SOON)

    @property
    def status(self) -> int:
        return self.answered.result().status

    async def signals(self) -> list[Any]:
        """What the signals of the answer are about."""
        return about(await self.answer())


def about(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer
    return [signal["ref"]["about"] for signal in json.loads(answer.body)["data"]["signals"]]


def header(answer: Answer, name: bytes) -> bytes:
    (value,) = (value for key, value in answer.headers if key == name)
    return value


class HeldReader(LogReader):
    """Reads at once, and tells only when it is let: what happens in between happens during the read."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._reads = database
        self.holding = False
        self.held: list[tuple[Any, ReadResult]] = []
        self.reads = 0

    def read(self, device_id: int, cursor: Position | None, limit: int, done: Any) -> None:
        self.reads += 1
        result: ReadResult
        try:
            result = self._reads.read_now(log.read, device_id, cursor, limit)
        except RestanteError as error:
            result = error
        self.held.append((done, result))
        if not self.holding:
            self.let_go()

    def let_go(self, instead: Exception | None = None) -> None:
        """Tell what was read; the reads that this leads to are held again, if reads are."""
        held, self.held = self.held, []
        for done, result in held:
            done(result if instead is None else instead)


class Post:
    """A poll on a real database, which hears its commits as the server does."""

    def __init__(self, database: Database, options: PollOptions = QUICK, reader: LogReader | None = None) -> None:
        self.database = database
        self.poll = Poll(reader or LogReader(database), Presence(database), options)
        self.is_listening = True
        self._loop = asyncio.get_running_loop()
        database.on_commit(self._pass_on)

    def _pass_on(self, announced: list[object]) -> None:
        self._loop.call_soon_threadsafe(self._hear, announced)

    def _hear(self, announced: Iterable[object]) -> None:
        for event in announced:
            if isinstance(event, Published) and self.is_listening:
                self.poll.hear(event)

    async def publish(self, *abouts: Any, device: int = DEVICE, keep: int = 1000) -> bytes:
        """The cursor after it. Heard by the time this returns, as every write is."""
        published = await self.database.write(log.append, device, [signal(one) for one in abouts], keep)
        return str(published.head.newest).encode()

    def start(self, cursor: bytes | None, *, limit: int = 20, waits: bool = True, device: int = DEVICE) -> Client:
        client = Client()
        client.parked = self.poll.start(device, cursor, limit, waits, client)
        return client

    async def parked(self, cursor: bytes | None = None, **how: Any) -> Client:
        """A poll that waits, with nothing to give it."""
        client = self.start(cursor, **how)
        while client.parked not in self.waiting(how.get("device", DEVICE)):
            assert not client.is_answered
            await asyncio.sleep(0)
        return client

    def waiting(self, device: int = DEVICE) -> list[ParkedPoll]:
        return self.poll.bell.waiting_for(device)

    def expire(self, client: Client) -> None:
        assert client.parked is not None
        self.poll.expire(client.parked)

    def abandon(self, client: Client) -> None:
        assert client.parked is not None
        self.poll.abandon(client.parked)
