"""Real Time Notification: the service that pushes events to receivers, as many receivers at once as it may.

Each receiver that was claimed is a task of its own: it sends the receiver's events one after another over one
connection, and writes down what came of each before the next. A slow receiver takes its own time and one place of the
many; after its turn it goes behind the others. What the steps mean is for `push_queue` to say, what the answers mean
for `core/push_outcome`.
"""

import asyncio
import os
import random
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

import structlog

from restante.core.callback_url import parse_callback_url
from restante.core.push_outcome import PushRules
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.delivery.alarm import Alarm
from restante.events import push_queue
from restante.events.push_queue import Delivery, Holder, Result
from restante.events.receiver_client import ClientOptions, ReceiverClient, ReceiverConnection
from restante.identity.master_key import MasterKey

log = structlog.get_logger()

AUTHORIZATION_PURPOSE = "receiver authorization"
# Beyond the time a receiver has for its answer: for the commit, and for a process that is short of time.
LEASE_MARGIN_SECONDS = 30.0
# So many events in a row, then it is another receiver's turn, if one waits.
TURN_EVENTS_MAX = 50
INTERVAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PushOptions:
    client: ClientOptions = field(default_factory=ClientOptions)
    rules: PushRules = field(default_factory=PushRules)
    # How many receivers are sent to at once.
    receivers_max: int = 32


@dataclass(slots=True)
class PushTotals:
    """Counts since the start, for the metrics."""

    delivered: int = 0
    refused: int = 0
    failed: int = 0
    given_up: int = 0


class Pusher:
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        options: PushOptions,
        client: ReceiverClient | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._options = options
        self._chance = chance
        self.client = client or ReceiverClient(options.client)
        lease_seconds = options.client.timeout_seconds + LEASE_MARGIN_SECONDS
        # Never the same twice: a restarted process must not pass for the holder of its former self's claims.
        name = f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._holder = Holder(name, int(lease_seconds * 1000))
        self._alarm = Alarm()
        self._sending: set[asyncio.Task[None]] = set()
        self.ring = self._alarm.ring
        self.stop = self._alarm.stop
        self.totals = PushTotals()

    @property
    def sending_count(self) -> int:
        return len(self._sending)

    async def run(self) -> None:
        try:
            while not self._alarm.is_stopping:
                await self._alarm.wait(await self._pass())
            if self._sending:
                await asyncio.wait(self._sending)
        finally:
            for task in self._sending:
                task.cancel()

    async def run_once(self) -> None:
        """Send all that is due now and can be; return when it is settled."""
        while await self._start_some():
            await asyncio.wait(set(self._sending))

    def close(self) -> None:
        self.client.close()

    async def _pass(self) -> float:
        """Start what can be started; how long there is nothing else to do."""
        try:
            await self._start_some()
            due = await self._database.read(push_queue.seconds_until_due)
        except DatabaseError as error:
            log.error("what is to be pushed cannot be read, it is tried again", error=str(error))
            return INTERVAL_SECONDS
        return INTERVAL_SECONDS if due is None else min(INTERVAL_SECONDS, max(due, 0.01))

    async def _start_some(self) -> int:
        free = self._options.receivers_max - len(self._sending)
        if free <= 0:
            return 0
        claimed = await self._database.write(push_queue.claim, self._holder, free)
        for delivery in claimed:
            task = asyncio.create_task(self._send(delivery))
            self._sending.add(task)
            task.add_done_callback(self._sent)
        return len(claimed)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self._sending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("an event could not be pushed", error=repr(task.exception()))
        self._alarm.ring()

    async def _send(self, first: Delivery) -> None:
        """A receiver's turn."""
        connection = ReceiverConnection(self.client, parse_callback_url(first.url))
        delivery: Delivery | None = first
        turn = 0
        try:
            while delivery is not None:
                turn += 1
                exchange = await connection.post(delivery.token.encode(), self._headers(delivery))
                result = Result(exchange.status, exchange.problem, exchange.body)
                delivery = await self._settle(delivery, result, goes_on=self._goes_on(turn))
        except DatabaseError as error:
            # The claim runs out by itself; what was delivered is delivered again.
            log.error("what came of a push cannot be written", client=first.client, error=str(error))
        finally:
            connection.close()

    def _goes_on(self, turn: int) -> bool:
        is_crowded = len(self._sending) >= self._options.receivers_max
        return not self._alarm.is_stopping and not (is_crowded and turn >= TURN_EVENTS_MAX)

    async def _settle(self, sent: Delivery, result: Result, *, goes_on: bool) -> Delivery | None:
        settled = await self._database.write(
            push_queue.settle, self._holder, self._options.rules, sent, result, self._chance(), goes_on=goes_on
        )
        match settled.outcome:
            case "delivered":
                self.totals.delivered += 1
            case "refused":
                self.totals.refused += 1
            case _:
                self.totals.failed += 1
        self.totals.given_up += settled.given_up
        if settled.outcome != "delivered":
            # The address and the token stay out of the log: either may carry a secret.
            log.warning("a push did not succeed", client=sent.client, jti=sent.jti, problem=result.problem)
        return settled.following

    def _headers(self, delivery: Delivery) -> dict[str, str]:
        headers = {"x-fapi-interaction-id": str(uuid4())}
        if delivery.sealed_authorization is not None:
            opened = self._master_key.open(delivery.sealed_authorization, AUTHORIZATION_PURPOSE)
            headers["authorization"] = opened.decode("ascii")
        return headers
