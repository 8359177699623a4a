"""The campaign of the events fault test: clients poll servers that are killed repeatedly.

The campaign puts signed events directly into the inboxes, as a CLI command beside the server would, each in its own
transaction. At the end every client acknowledges all events until nothing is left; then the campaign reads the inboxes.
"""

import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.database.queries import Query
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient
from tests.faults.campaigns import join_threads
from tests.faults.deployments import Deployment, SingleServer
from tests.faults.events.checker import Verdict, check
from tests.faults.events.polling_client import EventClient
from tests.faults.events.records import AckSent, FinalEvent, Published, Record
from tests.faults.kill_campaign import KillCampaign, KillReport, drain, wait_for_response
from tests.faults.kill_schedule import KillPlan
from tests.faults.server_process import ServerProcess

DRAIN_SECONDS = 20.0
# What a planted bug needs to show: verdicts that the server has answered, and error reports among them.
EFFECTS_SECONDS = 60.0
ANSWERED_MIN = 100
ERRORS_MIN = 10
FLAGS = ("--events-poll-rate-per-second", "100000", "--events-poll-burst", "1000000", "--log-level", "warning")

_FINAL = Query(
    "final",
    """SELECT inbox.client, inbox.jti, inbox.status, texts.text FROM event_inbox AS inbox
       JOIN event_texts AS texts ON texts.place = inbox.client * 1099511627776 + inbox.id ORDER BY inbox.id""",
)


_ANY_LEFT = Query("any_left", "SELECT 1 FROM event_inbox WHERE status = 'ready' LIMIT 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(KillPlan):
    clients: int = 20
    # Possible numbers of events in one transaction.
    at_once: tuple[int, ...] = (1, 1, 3)


Report = KillReport[Verdict]


class EventsCampaign(KillCampaign[Plan, Report]):
    def __init__(self, folder: Path, plan: Plan, deployment: Deployment | None = None) -> None:
        super().__init__(plan, deployment or SingleServer(folder, *FLAGS))
        # Many threads append to this list, which needs no lock.
        self._records: list[Record | str] = []
        self._clients: list[EventClient] = []

    @contextmanager
    def _under_load(self) -> Iterator[None]:
        with self.deployment.opened() as database:
            customers = [database.write_now(inbox_fixture.add_client) for _ in range(self.plan.clients + 1)]
            *polling, self._watcher = customers
            try:
                self.deployment.start()
                self._start(database, polling)
                yield
            finally:
                self._stop.set()
                for client in self._clients:
                    client.finish.set()
                self.deployment.end()

    def _start(self, database: Database, customers: list[PollingClient]) -> None:
        self._database = database
        self._publisher = Publisher(database, customers, self._stop, self.plan, self._records)
        seeds = seeds_from(self.plan.seed)
        self._clients = [
            EventClient(self.deployment.ports, each.id, each.token, next(seeds), self._records.append)
            for each in customers
        ]
        self._threads = [threading.Thread(target=client.run, daemon=True) for client in self._clients]
        for thread in (self._publisher, *self._threads):
            thread.start()

    def _wait_until_served(self, server: ServerProcess) -> None:
        request = {"returnImmediately": True}
        wait_for_response(server, self._watcher.token, lambda client: client.request("POST", "/events", request))

    def _wait_for_effects_of_bug(self) -> None:
        """Wait until the server has responded to acknowledgements and error reports of the clients, however slowly."""
        deadline = time.monotonic() + EFFECTS_SECONDS
        while True:
            answered = [each for each in self._records if isinstance(each, AckSent) and each.has_response]
            errors = sum(each.is_error for each in answered)
            if len(answered) >= ANSWERED_MIN and errors >= ERRORS_MIN:
                return
            unexpected = [each for each in self._records if isinstance(each, str)]
            assert time.monotonic() < deadline, f"{len(answered)} verdicts answered, {errors} errors; {unexpected}"
            time.sleep(0.05)

    def _report(self, recovery_seconds: list[float]) -> Report:
        self._stop.set()
        join_threads([self._publisher])
        for client in self._clients:
            client.calm.set()
        drained_seconds = drain(lambda: self._database.read_now(lambda conn: conn.one(_ANY_LEFT)), DRAIN_SECONDS)
        for client in self._clients:
            client.finish.set()
        join_threads(self._threads)
        rows = self._database.read_now(lambda conn: conn.all(_FINAL))
        final = [FinalEvent(row["client"], row["jti"], row["status"], row["text"]) for row in rows]
        records = [each for each in self._records if not isinstance(each, str)]
        return Report(
            verdict=check(records, final),
            unexpected=[each for each in self._records if isinstance(each, str)],
            kills=self.plan.kills,
            drained_seconds=drained_seconds,
            recovery_seconds=recovery_seconds,
        )


class Publisher(threading.Thread):
    """Puts events into the inboxes, each batch in its own transaction, and records what was committed."""

    def __init__(
        self,
        database: Database,
        customers: list[PollingClient],
        stop: threading.Event,
        plan: Plan,
        records: list[Record | str],
    ) -> None:
        super().__init__(name="publisher", daemon=True)
        self._database = database
        self._customers = customers
        self._stopped = stop
        self._random = random.Random(plan.seed)
        self._at_once = plan.at_once
        self._records = records

    def run(self) -> None:
        while not self._stopped.wait(0.002):
            customer = self._random.choice(self._customers)
            jtis = [uuid.uuid4().hex for _ in range(self._random.choice(self._at_once))]
            try:
                self._database.write_now(inbox_fixture.put_ready, customer.id, *jtis)
            except DatabaseUnavailable as error:
                # The write waits for the lock of a server that was killed within a write; it should get it soon.
                self._records.append(f"an event could not be published: {error}")
                return
            self._records += [Published(customer.id, jti) for jti in jtis]


def seeds_from(seed: int) -> Iterator[int]:
    """An endless series of seeds, from one seed."""
    rng = random.Random(seed)
    while True:
        yield rng.randrange(2**32)
