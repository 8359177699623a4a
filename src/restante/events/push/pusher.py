"""Real Time Notification: the service that pushes events to several receivers at once.

Each leased receiver has its own task, which sends the receiver's events one after another over one connection and
records each result before the next event. A slow receiver occupies one of `receivers_max` slots; after its turn, other
receivers come first. `push_queue` implements the database steps, `core.events.push_outcome` classifies responses.
"""

import asyncio
import os
import random
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

import structlog

from restante.core.events.callback_url import parse_callback_url
from restante.core.events.push_outcome import PushResult, PushRules
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.delivery.wakeup import Wakeup
from restante.events.inbox.inbox import OPEN_BANKING, SHARED_SIGNALS
from restante.events.outgoing_http import OutgoingClient, OutgoingOptions
from restante.events.push import push_queue
from restante.events.push.push_queue import LeaseHolder, PushDelivery
from restante.events.push.receiver_connection import ReceiverConnection
from restante.identity.master_key import MasterKey

log = structlog.get_logger()

AUTHORIZATION_PURPOSE = "receiver authorization"
# Open Banking specifies the first; RFC 8935 specifies the second, and its receivers refuse any other.
CONTENT_TYPES = {OPEN_BANKING: "application/jwt", SHARED_SIGNALS: "application/secevent+jwt"}
# A lease outlasts the response timeout by this much, for the commit and for a slow process.
LEASE_MARGIN_SECONDS = 30.0
# After so many events in a row, a receiver yields to others that wait.
TURN_EVENTS_MAX = 50
INTERVAL_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class PushOptions:
    client: OutgoingOptions
    rules: PushRules
    # The number of receivers served at the same time.
    receivers_max: int
    # The value of `x-fapi-financial-id` in pushes of Open Banking; None: no such header.
    financial_id: str | None


@dataclass(slots=True)
class PushCounters:
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
        client: OutgoingClient | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._options = options
        self._chance = chance
        self.client = client or OutgoingClient(options.client)
        lease_seconds = options.client.timeout_seconds + LEASE_MARGIN_SECONDS
        # Unique for each start: a restarted process must not own the leases of its predecessor.
        name = f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"
        self._holder = LeaseHolder(name, int(lease_seconds * 1000))
        self._wakeup = Wakeup()
        self._sending: set[asyncio.Task[None]] = set()
        self.wake = self._wakeup.wake
        self.stop = self._wakeup.stop
        self.counters = PushCounters()

    @property
    def sending_count(self) -> int:
        return len(self._sending)

    async def run(self) -> None:
        try:
            while not self._wakeup.is_stopping:
                await self._wakeup.wait(await self._pass())
            if self._sending:
                await asyncio.wait(self._sending)
        finally:
            for task in self._sending:
                task.cancel()

    async def run_once(self) -> None:
        """Send all events that are due now; return when all results are recorded."""
        while await self._start_some():
            await asyncio.wait(set(self._sending))

    def close(self) -> None:
        self.client.close()

    async def _pass(self) -> float:
        """Start tasks for due receivers; return the seconds until the next pass."""
        try:
            await self._start_some()
            due = await self._database.read(push_queue.seconds_until_due)
        except DatabaseError as error:
            log.error("due pushes cannot be read, retrying later", error=str(error))
            return INTERVAL_SECONDS
        return INTERVAL_SECONDS if due is None else min(INTERVAL_SECONDS, max(due, 0.01))

    async def _start_some(self) -> int:
        free = self._options.receivers_max - len(self._sending)
        if free <= 0:
            return 0
        deliveries = await self._database.write(push_queue.acquire, self._holder, free)
        for delivery in deliveries:
            task = asyncio.create_task(self._send(delivery))
            self._sending.add(task)
            task.add_done_callback(self._sent)
        return len(deliveries)

    def _sent(self, task: "asyncio.Task[None]") -> None:
        self._sending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("push task failed", error=repr(task.exception()))
        self._wakeup.wake()

    async def _send(self, first: PushDelivery) -> None:
        """Send the events of one receiver until its turn ends."""
        connection = ReceiverConnection(self.client, parse_callback_url(first.url))
        delivery: PushDelivery | None = first
        sent_count = 0
        try:
            while delivery is not None:
                sent_count += 1
                result = await connection.post(delivery.token.encode(), self._headers(delivery))
                delivery = await self._record(delivery, result, keep_lease=self._keeps_lease(sent_count))
        except DatabaseError as error:
            # The lease expires by itself; a delivered event is sent again.
            log.error("push result cannot be recorded", client=first.client, error=str(error))
        finally:
            connection.close()

    def _keeps_lease(self, sent_count: int) -> bool:
        is_crowded = len(self._sending) >= self._options.receivers_max
        return not self._wakeup.is_stopping and not (is_crowded and sent_count >= TURN_EVENTS_MAX)

    async def _record(self, sent: PushDelivery, result: PushResult, *, keep_lease: bool) -> PushDelivery | None:
        recorded = await self._database.write(
            push_queue.record_result,
            self._holder,
            self._options.rules,
            sent,
            result,
            self._chance(),
            keep_lease=keep_lease,
        )
        match recorded.outcome:
            case "delivered":
                self.counters.delivered += 1
            case "refused":
                self.counters.refused += 1
            case _:
                self.counters.failed += 1
        self.counters.given_up += recorded.given_up
        if recorded.outcome != "delivered":
            # The URL and the token are not logged: both may contain secrets.
            log.warning("push not delivered", client=sent.client, jti=sent.jti, problem=result.problem)
        return recorded.next_delivery

    def _headers(self, delivery: PushDelivery) -> dict[str, str]:
        headers = {"content-type": CONTENT_TYPES[delivery.profile], "x-fapi-interaction-id": str(uuid4())}
        if delivery.profile == OPEN_BANKING and self._options.financial_id is not None:
            headers["x-fapi-financial-id"] = self._options.financial_id
        if delivery.sealed_authorization is not None:
            opened = self._master_key.open(delivery.sealed_authorization, AUTHORIZATION_PURPOSE)
            headers["authorization"] = opened.decode("ascii")
        return headers
