"""Polls for events, asked for without HTTP: who asks remembers what it was answered."""

import asyncio
import json
from typing import Any

from restante.core.acknowledgement import Fault, verdicts_of
from restante.database.database import Database
from restante.events.parts import EventsOptions, EventsParts
from restante.events.poll import ParkedPoll
from restante.events.poll_body import ReadPoll
from restante.identity.client_tokens import ClientTokens
from restante.identity.master_key import MasterKey
from restante.web.answer import Answer

PATIENCE_SECONDS = 10.0


class Desk:
    """The parts of event polling on a database, hearing what commits announce in the running loop."""

    def __init__(self, database: Database, options: EventsOptions | None = None) -> None:
        self.database = database
        self.tokens = ClientTokens(database)
        self.parts = EventsParts(database, MasterKey(bytes(32)), self.tokens, options or EventsOptions())
        self.poll = self.parts.poll
        loop = asyncio.get_running_loop()

        def pass_on(announced: list[object]) -> None:
            for event in announced:
                loop.call_soon_threadsafe(self.parts.hear, event)

        database.on_commit(pass_on)

    def ask(self, client: int, limit: int = 100, *, waits: bool = False, ack: tuple[str, ...] = ()) -> "Asked":
        return Asked(self, client, ReadPoll(limit, waits, verdicts_of(ack, {})))

    def complain(self, client: int, *jtis: str) -> "Asked":
        return Asked(self, client, ReadPoll(100, False, verdicts_of((), dict.fromkeys(jtis, Fault("e", "d")))))


class Asked:
    """One poll under way."""

    def __init__(self, desk: Desk, client: int, read: ReadPoll) -> None:
        self._desk = desk
        self._answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.parked: ParkedPoll = desk.poll.start(client, read, self._answered.set_result)

    async def answer(self) -> Answer:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._answered

    async def body(self) -> Any:
        answer = await self.answer()
        assert answer.status == 200
        return json.loads(answer.body)

    async def sets(self) -> list[str]:
        return list((await self.body())["sets"])

    @property
    def is_answered(self) -> bool:
        return self._answered.done()

    async def until_parked(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.parked not in self._desk.poll.bell.everyone_waiting():
                await asyncio.sleep(0.001)
