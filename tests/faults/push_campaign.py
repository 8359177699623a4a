"""A campaign of the push fault test: receivers that are sent events by nodes that are killed in turn.

Events are published over HTTP, each under an idempotency key and asked for until it is answered, so that it is known
what was published and in which order. Receivers answer as they like; at the end they take everything, until nothing is
left.
"""

import json
import random
import threading
import time
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.events import subscriptions
from restante.events.subscriptions import Wish
from tests.events import bank
from tests.events.receiver_process import ReceiverProcess, receiving
from tests.events.tls_files import TlsFiles
from tests.faults.lives import kill_again_and_again, let_end_itself
from tests.faults.nodes_client import client_of
from tests.faults.places import Place
from tests.faults.push_checker import Verdict, check
from tests.faults.push_records import Death, Kept, Published, Pushed, Records
from tests.faults.server_process import PATIENCE_SECONDS, ServerProcess

# What a dead node held is let go by its lease, and a busy machine takes its time.
DRAIN_SECONDS = 60.0

_KEPT = Query("kept", "SELECT jti, status FROM event_inbox ORDER BY id")
_ANY_LEFT = Query("any_left", "SELECT 1 FROM event_inbox WHERE status <> 'acknowledged' LIMIT 1")


def flags_for(tls: TlsFiles) -> tuple[str, ...]:
    """Receivers on this machine; few for each node, so that both have some; and no long waits after a failure."""
    return (
        *("--push-allowed", "127.0.0.0/8,::1", "--push-ca", str(tls.authority), "--push-receivers-max", "5"),
        *("--push-timeout-seconds", "20", "--push-retry-base-seconds", "0.05", "--push-retry-max-seconds", "0.4"),
        *("--push-circuit-failures", "1000", "--push-attempts-max", "1000", "--log-level", "warning"),
    )


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    kills: int
    receivers: int = 8
    publishers: int = 2
    life_seconds: tuple[float, float] = (0.5, 1.5)
    early_share: float = 0.15
    # How long a publisher rests between two events.
    rest_seconds: float = 0.02


@dataclass(slots=True)
class Report:
    verdict: Verdict
    surprises: list[str]
    kills: int

    def __str__(self) -> str:
        return f"{self.kills} kills; {self.verdict}"


class PushCampaign:
    def __init__(self, folder: Path, plan: Plan, place: Place, tls: TlsFiles) -> None:
        self.plan = plan
        self.place = place
        self._folder = folder
        self._tls = tls
        self._stop = threading.Event()
        # Appended to by many threads, which needs no lock.
        self._noted: list[Published | str] = []

    def run_with_kills(self) -> Report:
        """Killed from outside, in turn."""
        with self._under_load():
            kill_again_and_again(self.place.nodes, self.plan, random.Random(self.plan.seed), _wait_until_ready)
            return self._report()

    def run_until_found(self, violation: str) -> Verdict:
        """Sabotaged nodes, which nobody kills, until the checker finds that, or has had every chance to."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._under_load():
            while True:
                verdict = check(self._records())
                if verdict.found[violation] or time.monotonic() > deadline:
                    return verdict
                time.sleep(0.1)

    def run_with_suicides(self, dying: tuple[str, ...], living: tuple[str, ...]) -> Report:
        """A sabotaged server, which ends itself as often as planned."""
        with self._under_load():
            let_end_itself(self.place.nodes[0], self.plan, dying, living)
            return self._report()

    @contextmanager
    def _under_load(self) -> Iterator[None]:
        with receiving(self._tls, self._folder / "record") as self._receiver, self.place.opened() as self._database:
            paths = [f"/moody/{number}" for number in range(self.plan.receivers)]
            clients = [(self._database.write_now(add_client, self._receiver.url(path)), path) for path in paths]
            try:
                self.place.start()
                share = self.plan.publishers
                self._publishers = [
                    Publisher(self.place, clients[number::share], self.plan, number, self._stop, self._noted)
                    for number in range(share)
                ]
                for publisher in self._publishers:
                    publisher.start()
                yield
            finally:
                self._stop.set()
                self.place.end()

    def _report(self) -> Report:
        self._stop.set()
        for publisher in self._publishers:
            publisher.join(PATIENCE_SECONDS)
            assert not publisher.is_alive(), f"{publisher.name} does not end"
        self._receiver.calm_down()
        self._wait_until_drained(self._database)
        surprises = [each for each in self._noted if isinstance(each, str)]
        return Report(check(self._records()), surprises, self.plan.kills)

    def _records(self) -> Records:
        rows = self._database.read_now(lambda conn: conn.all(_KEPT))
        return Records(
            [each for each in self._noted if not isinstance(each, str)],
            pushed_to(self._receiver),
            [Death(*death) for node in self.place.nodes for death in node.deaths],
            [Kept(row["jti"], row["status"]) for row in rows],
        )

    def _wait_until_drained(self, database: Database) -> None:
        """Not for ever: what is then still there the checker will see."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while database.read_now(lambda conn: conn.one(_ANY_LEFT)) and time.monotonic() < deadline:
            time.sleep(0.05)


class Publisher(threading.Thread):
    """Publishes one event after another to its clients, each until it is answered."""

    def __init__(
        self,
        place: Place,
        clients: list[tuple[str, str]],
        plan: Plan,
        number: int,
        stop: threading.Event,
        noted: list[Published | str],
    ) -> None:
        super().__init__(name=f"publisher {number}", daemon=True)
        self._clients = clients
        self._random = random.Random(plan.seed * 1000 + number)
        self._rest_seconds = plan.rest_seconds
        self._stopped = stop
        self._noted = noted
        self._operator = client_of(place.ports, place.prepared.key, number)

    def run(self) -> None:
        try:
            while not self._stopped.wait(self._rest_seconds):
                self._noted.append(self._publish(*self._random.choice(self._clients)))
        except Exception as error:
            self._noted.append(f"{self.name} ended: {error!r}")
        finally:
            self._operator.close()

    def _publish(self, client_id: str, path: str) -> Published:
        event = {"client_id": client_id, "sub": "https://bank.example/1", "events": {"urn:x:y": {}}}
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        reply = self._operator.ask_until_answered("POST", "/admin/events", event, headers=headers)
        assert reply.status == 201, f"{reply.status}: {reply.body}"
        return Published(path, reply.body["jti"])


def add_client(conn: Connection, url: str) -> str:
    """A client whose events are pushed there; its id."""
    client = bank.add_client(conn)
    subscriptions.create(conn, client.id, Wish(url, "4.0", None))
    return client.client_id


def pushed_to(receiver: ReceiverProcess) -> list[Pushed]:
    """What it was sent and has answered, or not."""
    answers = receiver.answered()
    found = []
    for asked in receiver.asked():
        path = asked["first"].split(" ")[1]
        answer = answers.get(asked["n"], {"status": None, "ended": asked["arrived"]})
        token = asked["body"]
        jti = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))["jti"]
        found.append(Pushed(path, asked["connection"], jti, token, asked["arrived"], answer["ended"], answer["status"]))
    return found


def _wait_until_ready(server: ServerProcess) -> None:
    server.wait_until_ready()
