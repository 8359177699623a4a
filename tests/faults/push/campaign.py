"""The campaign of the push fault test: nodes push events to receivers and are killed in turn.

Events are published over HTTP with idempotency keys, and each request is repeated until it gets a response, so it is
known which events were published and in which order. Receivers accept, refuse, fail and hang up at random; at the end
they accept everything until nothing is left.
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
from restante.database.queries import Query
from restante.events.push import subscriptions
from restante.events.push.subscriptions import SubscriptionRequest
from tests.events import inbox_fixture
from tests.events.receiver_process import ReceiverProcess, receiving
from tests.events.tls_files import TlsFiles
from tests.faults.campaigns import join_threads
from tests.faults.deployments import Deployment
from tests.faults.kill_campaign import KillCampaign, KillReport, drain
from tests.faults.kill_schedule import KillPlan
from tests.faults.nodes.balanced_client import client_for
from tests.faults.push.checker import Verdict, check
from tests.faults.push.records import FinalEvent, Kill, Published, PushRequest, Records
from tests.faults.server_process import TIMEOUT_SECONDS, ServerProcess

# The receivers of a killed node are released when its lease expires, and the machine may be busy.
DRAIN_SECONDS = 60.0

_FINAL = Query("final", "SELECT jti, status FROM event_inbox ORDER BY id")
_ANY_LEFT = Query("any_left", "SELECT 1 FROM event_inbox WHERE status <> 'acknowledged' LIMIT 1")


def flags_for(tls: TlsFiles) -> tuple[str, ...]:
    """Allow receivers on this machine, few per node so that both nodes have some, with short waits after a failure."""
    return (
        *("--push-allowed", "127.0.0.0/8,::1", "--push-ca", str(tls.authority), "--push-receivers-max", "5"),
        *("--push-timeout-seconds", "20", "--push-retry-base-seconds", "0.05", "--push-retry-max-seconds", "0.4"),
        *("--push-circuit-failures", "1000", "--push-attempts-max", "1000", "--log-level", "warning"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(KillPlan):
    receivers: int = 8
    publishers: int = 2
    uptime_seconds: tuple[float, float] = (0.5, 1.5)
    # The pause of a publisher between two events.
    pause_seconds: float = 0.02


Report = KillReport[Verdict]


class PushCampaign(KillCampaign[Plan, Report]):
    def __init__(self, folder: Path, plan: Plan, deployment: Deployment, tls: TlsFiles) -> None:
        super().__init__(plan, deployment)
        self._folder = folder
        self._tls = tls
        # Many threads append to this list, which needs no lock.
        self._observed: list[Published | str] = []

    def run_until_found(self, violation: str) -> Verdict:
        """Run nodes with a planted bug, without kills, until the checker finds the violation or the time is up."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        with self._under_load():
            while True:
                verdict = check(self._records())
                if verdict.found[violation] or time.monotonic() > deadline:
                    return verdict
                time.sleep(0.1)

    @contextmanager
    def _under_load(self) -> Iterator[None]:
        with (
            receiving(self._tls, self._folder / "record") as self._receiver,
            self.deployment.opened() as self._database,
        ):
            paths = [f"/flaky/{number}" for number in range(self.plan.receivers)]
            clients = [(self._database.write_now(add_client, self._receiver.url(path)), path) for path in paths]
            try:
                self.deployment.start()
                share = self.plan.publishers
                self._publishers = [
                    Publisher(self.deployment, clients[number::share], self.plan, number, self._stop, self._observed)
                    for number in range(share)
                ]
                for publisher in self._publishers:
                    publisher.start()
                yield
            finally:
                self._stop.set()
                self.deployment.end()

    def _wait_until_served(self, server: ServerProcess) -> None:
        server.wait_until_ready()

    def _report(self, recovery_seconds: list[float]) -> Report:
        self._stop.set()
        join_threads(self._publishers)
        self._receiver.stop_failing()
        drained_seconds = drain(lambda: self._database.read_now(lambda conn: conn.one(_ANY_LEFT)), DRAIN_SECONDS)
        return Report(
            verdict=check(self._records()),
            unexpected=[each for each in self._observed if isinstance(each, str)],
            kills=self.plan.kills,
            drained_seconds=drained_seconds,
            recovery_seconds=recovery_seconds,
        )

    def _records(self) -> Records:
        rows = self._database.read_now(lambda conn: conn.all(_FINAL))
        return Records(
            [each for each in self._observed if not isinstance(each, str)],
            requests_at(self._receiver),
            [Kill(*kill) for node in self.deployment.nodes for kill in node.kills],
            [FinalEvent(row["jti"], row["status"]) for row in rows],
        )


class Publisher(threading.Thread):
    """Publishes one event after another to its clients and repeats each request until it gets a response."""

    def __init__(
        self,
        deployment: Deployment,
        clients: list[tuple[str, str]],
        plan: Plan,
        number: int,
        stop: threading.Event,
        observed: list[Published | str],
    ) -> None:
        super().__init__(name=f"publisher {number}", daemon=True)
        self._clients = clients
        self._random = random.Random(plan.seed * 1000 + number)
        self._pause_seconds = plan.pause_seconds
        self._stopped = stop
        self._observed = observed
        self._operator = client_for(deployment.ports, deployment.prepared.key, number)

    def run(self) -> None:
        try:
            while not self._stopped.wait(self._pause_seconds):
                self._observed.append(self._publish(*self._random.choice(self._clients)))
        except Exception as error:
            self._observed.append(f"{self.name} ended: {error!r}")
        finally:
            self._operator.close()

    def _publish(self, client_id: str, path: str) -> Published:
        event = {"client_id": client_id, "sub": "https://bank.example/1", "events": {"urn:x:y": {}}}
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        response = self._operator.request_until_answered("POST", "/admin/events", event, headers=headers)
        assert response.status == 201, f"{response.status}: {response.body}"
        return Published(path, response.body["jti"])


def add_client(conn: Connection, url: str) -> str:
    """Add a client whose events are pushed to the URL; returns its id."""
    client = inbox_fixture.add_client(conn)
    subscriptions.create(conn, client.id, SubscriptionRequest(url, "4.0", None))
    return client.client_id


def requests_at(receiver: ReceiverProcess) -> list[PushRequest]:
    """The requests that the receiver got, with its responses."""
    responses = receiver.flaky_responses()
    requests = []
    for request in receiver.requests():
        path = request["first"].split(" ")[1]
        response = responses.get(request["n"], {"status": None, "ended": request["arrived"]})
        token = request["body"]
        jti = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))["jti"]
        requests.append(
            PushRequest(
                path, request["connection"], jti, token, request["arrived"], response["ended"], response["status"]
            )
        )
    return requests
