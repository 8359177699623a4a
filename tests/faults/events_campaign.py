"""A campaign of the event fault test: clients that poll at servers that are killed again and again.

Events are put into the inboxes beside the server, by a process of its own as a command would do it: signed, in a
transaction each. At the end everybody acknowledges all they get, until nothing is left; then the inboxes are read.
"""

import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.database.queries import Query
from tests.events import bank
from tests.events.bank import Customer
from tests.faults.client import Client, Unanswered
from tests.faults.events_checker import Verdict, check
from tests.faults.events_client import EventClient
from tests.faults.events_records import Kept, Published, Record
from tests.faults.lives import kill_again_and_again, let_end_itself
from tests.faults.places import Alone, Place
from tests.faults.server_process import PATIENCE_SECONDS, ServerProcess

DRAIN_SECONDS = 20.0
# Far more than a start takes: the machine may be busy with other tests.
BACK_PATIENCE_SECONDS = 90.0
FLAGS = ("--events-poll-rate-per-second", "100000", "--events-poll-burst", "1000000", "--log-level", "warning")

_KEPT = Query(
    "kept",
    """SELECT inbox.client, inbox.jti, inbox.status, texts.text FROM event_inbox AS inbox
       JOIN event_texts AS texts ON texts.place = inbox.client * 1099511627776 + inbox.id ORDER BY inbox.id""",
)


_ANY_LEFT = Query("any_left", "SELECT 1 FROM event_inbox WHERE status = 'ready' LIMIT 1")


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    kills: int
    clients: int = 20
    life_seconds: tuple[float, float] = (0.1, 0.6)
    early_share: float = 0.15
    # How many events are published in one transaction: one of these.
    at_once: tuple[int, ...] = (1, 1, 3)


@dataclass(slots=True)
class Report:
    verdict: Verdict
    surprises: list[str]
    kills: int
    back_seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        back = sorted(self.back_seconds)
        middle = f"{back[len(back) // 2]:.2f} s, worst {back[-1]:.2f} s" if back else "not measured"
        return f"{self.kills} kills; {self.verdict}; first good poll after a kill: median {middle}"


class EventsCampaign:
    def __init__(self, folder: Path, plan: Plan, place: Place | None = None) -> None:
        self.plan = plan
        self.place = place or Alone(folder, *FLAGS)
        self._random = random.Random(plan.seed)
        # Appended to by many threads, which needs no lock.
        self._noted: list[Record | str] = []
        self._stop = threading.Event()
        self._clients: list[EventClient] = []

    def run_with_kills(self) -> Report:
        """The honest server, killed from outside."""
        with self._under_load():
            back_seconds = kill_again_and_again(self.place.nodes, self.plan, self._random, self._first_good_poll)
            return self._report(back_seconds)

    def run_with_suicides(self, dying: tuple[str, ...], living: tuple[str, ...]) -> Report:
        """A sabotaged server, which ends itself as often as planned."""
        if not self.plan.kills:
            self.place.nodes[0].command = living
        with self._under_load():
            let_end_itself(self.place.nodes[0], self.plan, dying, living)
            return self._report([])

    @contextmanager
    def _under_load(self) -> Iterator[None]:
        with self.place.opened() as database:
            customers = [database.write_now(bank.add_client) for _ in range(self.plan.clients + 1)]
            *polling, self._watcher = customers
            try:
                self.place.start()
                self._start(database, polling)
                yield
            finally:
                self._stop.set()
                for client in self._clients:
                    client.finish.set()
                self.place.end()

    def _start(self, database: Database, customers: list[Customer]) -> None:
        self._database = database
        self._publisher = Publisher(database, customers, self._stop, self.plan, self._noted)
        seeds = seeds_from(self.plan.seed)
        self._clients = [
            EventClient(self.place.ports, each.id, each.token, next(seeds), self._noted.append) for each in customers
        ]
        self._threads = [threading.Thread(target=client.run, daemon=True) for client in self._clients]
        for thread in (self._publisher, *self._threads):
            thread.start()

    def _first_good_poll(self, server: ServerProcess) -> None:
        client = Client(server.port, self._watcher.token)
        deadline = time.monotonic() + BACK_PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                if client.ask("POST", "/events", {"returnImmediately": True}).status == 200:
                    client.close()
                    return
            except Unanswered:
                continue
        raise AssertionError("no poll is answered")

    def _report(self, back_seconds: list[float]) -> Report:
        self._stop.set()
        self._publisher.join(PATIENCE_SECONDS)
        for client in self._clients:
            client.calm.set()
        self._wait_until_drained()
        for client in self._clients:
            client.finish.set()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), f"{thread.name} does not end"
        rows = self._database.read_now(lambda conn: conn.all(_KEPT))
        kept = [Kept(row["client"], row["jti"], row["status"], row["text"]) for row in rows]
        records = [each for each in self._noted if not isinstance(each, str)]
        surprises = [each for each in self._noted if isinstance(each, str)]
        return Report(check(records, kept), surprises, self.plan.kills, back_seconds)

    def _wait_until_drained(self) -> None:
        """Not for ever: what is then still there the checker will see."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._database.read_now(lambda conn: conn.one(_ANY_LEFT)) and time.monotonic() < deadline:
            time.sleep(0.02)


class Publisher(threading.Thread):
    """Puts events into the inboxes, each in a transaction of its own, and notes what was committed."""

    def __init__(
        self,
        database: Database,
        customers: list[Customer],
        stop: threading.Event,
        plan: Plan,
        noted: list[Record | str],
    ) -> None:
        super().__init__(name="publisher", daemon=True)
        self._database = database
        self._customers = customers
        self._stopped = stop
        self._random = random.Random(plan.seed)
        self._at_once = plan.at_once
        self._noted = noted

    def run(self) -> None:
        while not self._stopped.wait(0.002):
            customer = self._random.choice(self._customers)
            jtis = [uuid.uuid4().hex for _ in range(self._random.choice(self._at_once))]
            try:
                self._database.write_now(bank.put_ready, customer.id, *jtis)
            except DatabaseUnavailable as error:
                # It waits for a server that is killed within a write; a server that lives lets it in soon.
                self._noted.append(f"an event could not be published: {error}")
                return
            self._noted += [Published(customer.id, jti) for jti in jtis]


def seeds_from(seed: int) -> Iterator[int]:
    """As many seeds as there are clients, from one."""
    chance = random.Random(seed)
    while True:
        yield chance.randrange(2**32)
