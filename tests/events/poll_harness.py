"""Polls for events without HTTP; each keeps the result that it got."""

import asyncio
import json
from typing import Any

from restante.core.events.poll_acks import Fault, verdicts_of
from restante.database.database import Database
from restante.events.component import EventsComponent, EventsOptions
from restante.events.inbox.poll import ClientPoll, PollResult
from restante.events.inbox.poll_schema import ParsedPoll
from restante.events.response_format import RESPONSE_FORMAT
from restante.identity.clients.client_tokens import ClientTokens
from restante.web.errors.error_responses import result_response
from restante.web.response import ApiResponse
from tests.components import handle
from tests.events.default_options import events_options

PATIENCE_SECONDS = 10.0


class EventsHarness:
    """The component of event polling on a database; it handles commit events in the running loop."""

    def __init__(self, database: Database, options: EventsOptions | None = None) -> None:
        self.database = database
        self.tokens = ClientTokens(database)
        self.component = EventsComponent(database, self.tokens, options or events_options())
        self.poll = self.component.poll
        loop = asyncio.get_running_loop()

        def on_commit(events: list[object]) -> None:
            loop.call_soon_threadsafe(lambda: handle(self.component, *events))

        database.on_commit(on_commit)

    def start(self, client: int, limit: int = 100, *, waits: bool = False, ack: tuple[str, ...] = ()) -> "PollCall":
        return PollCall(self, client, ParsedPoll(limit, waits, verdicts_of(ack, {})))

    def report_errors(self, client: int, *jtis: str) -> "PollCall":
        return PollCall(self, client, ParsedPoll(100, False, verdicts_of((), dict.fromkeys(jtis, Fault("e", "d")))))


class PollCall:
    """One poll and its result."""

    def __init__(self, harness: EventsHarness, client: int, read: ParsedPoll) -> None:
        self._desk = harness
        self._replied: asyncio.Future[PollResult] = asyncio.get_running_loop().create_future()
        self.parked: ClientPoll = harness.poll.start(client, read, self._replied.set_result)

    async def response(self) -> ApiResponse:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return result_response(RESPONSE_FORMAT, await self._replied)

    async def body(self) -> Any:
        response = await self.response()
        assert response.status == 200
        return json.loads(response.body)

    async def sets(self) -> list[str]:
        return list((await self.body())["sets"])

    @property
    def is_finished(self) -> bool:
        return self._replied.done()

    async def until_parked(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.parked not in self._desk.poll.waiters.all_waiters():
                await asyncio.sleep(0.001)
