"""A campaign against several nodes: devices and emitters at all of them, while one part after another is killed.

What was acknowledged must be told once and in its place, whoever died meanwhile; the judge is that of one node.
"""

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.faults.checker import Change, State, Verdict, check
from tests.faults.client import Client, Unanswered, register
from tests.faults.load import Emitter, Ledger, LoadedDevice, Reader
from tests.faults.nodes_client import BalancedClient
from tests.faults.nodes_cluster import Cluster
from tests.faults.server_process import PATIENCE_SECONDS, ServerProcess

DRAIN_SECONDS = 180.0
# Signals of one's own and install configs: what costs the test least, so that there is much of it.
WEIGHTS = (6, 2, 0, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    devices: int = 100
    emitters: int = 8
    life_seconds: tuple[float, float] = (0.2, 0.6)


@dataclass(slots=True)
class Report:
    verdict: Verdict
    surprises: list[str]
    drained_seconds: float
    # What was done how often, and how long it took each time until a poll was answered again: from the moment the part
    # was started again (a service: accepted connections again), and from the moment it was killed.
    back_seconds: dict[str, list[float]] = field(default_factory=dict)
    away_seconds: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.verdict}; drained in {self.drained_seconds:.2f} s"]
        for what, seconds in self.back_seconds.items():
            lines.append(
                f"{len(seconds)} × {what}: first good poll after the restart {_summed_up(seconds)}, "
                f"after the kill {_summed_up(self.away_seconds[what])}"
            )
        return "\n".join(lines)


def _summed_up(seconds: list[float]) -> str:
    return f"median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s"


class NodesCampaign:
    def __init__(self, cluster: Cluster, serving: list[ServerProcess], plan: Plan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.ledger = Ledger()
        self.devices: list[LoadedDevice] = []
        self.random = random.Random(plan.seed)
        self._ports = [node.port for node in serving]
        self._states: list[State] = []
        self._drained_seconds = 0.0
        self._back_seconds: dict[str, list[float]] = {}
        self._away_seconds: dict[str, list[float]] = {}
        self._stop, self._finish = threading.Event(), threading.Event()

    def run(self, *faults: "Fault") -> Report:
        with self._under_load() as threads:
            for fault in faults:
                for number in range(fault.times):
                    self._inflict(fault, number)
            self._finish_load(threads)
        verdict = check(self.ledger.changes, self.ledger.readings, self._states)
        surprises, drained = self.ledger.surprises, self._drained_seconds
        return Report(verdict, surprises, drained, self._back_seconds, self._away_seconds)

    def client(self, bearer: str, seed: int = 0) -> BalancedClient:
        return BalancedClient(self._ports, bearer, self.cluster.settle, seed)

    def _inflict(self, fault: "Fault", number: int) -> None:
        """Once; and wait until a poll is answered by whoever it befell, or by anybody."""
        time.sleep(self.random.uniform(*self.plan.life_seconds))
        fault.wait_until_whole()
        killed_at = time.monotonic()
        port = fault.inflict(number)
        restarted_at = time.monotonic()
        self._first_good_poll(self._ports if port is None else [port])
        now = time.monotonic()
        self._back_seconds.setdefault(fault.name, []).append(now - restarted_at)
        self._away_seconds.setdefault(fault.name, []).append(now - killed_at)

    def _first_good_poll(self, ports: list[int]) -> None:
        client = BalancedClient(ports, self.devices[0].handle.token, self.cluster.settle)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                if client.poll("0-0", limit=1).status == 200:
                    client.close()
                    return
            except Unanswered:
                self.cluster.revive()
        raise AssertionError("no poll is answered")

    @contextmanager
    def _under_load(self) -> Iterator[list[threading.Thread]]:
        operator = self.client(self.cluster.prepared.key)
        user_id = self.cluster.prepared.user_id
        for _ in range(self.plan.devices):
            self.devices.append(LoadedDevice(register(operator, self.cluster.prepared), user_id, 0, ""))
        # So that there is something to find for the first poll after a fault.
        operator.ask("POST", f"{self.devices[0].path}/signals", {"type": "app.numbered", "ref": {"number": "first"}})
        self.ledger.changes.append(Change(self.devices[0].handle.id, ("app.numbered", "first"), acknowledged=True))
        operator.close()
        threads: list[threading.Thread] = [*self._emitters()]
        threads += [self._reader(device, number) for number, device in enumerate(self.devices)]
        try:
            for thread in threads:
                thread.start()
            yield threads
        finally:
            self._stop.set()
            self._finish.set()

    def _emitters(self) -> list[Emitter]:
        share, seed = self.plan.emitters, self.plan.seed * 1000
        return [
            Emitter(
                self.client(self.cluster.prepared.key, number),
                self.devices[number::share],
                self.ledger,
                self._stop,
                seed + number,
                WEIGHTS,
            )
            for number in range(share)
        ]

    def _reader(self, device: LoadedDevice, number: int) -> Reader:
        client = self.client(device.handle.token, number)
        return Reader(client, device.handle, self.ledger, self._finish, wait=2, limit=3 if number % 3 else 100)

    def _finish_load(self, threads: list[threading.Thread]) -> None:
        """No more changes; all that is on its way arrives; every device is read to its end, and once afresh."""
        self._stop.set()
        _join([thread for thread in threads if isinstance(thread, Emitter)])
        operator = self.client(self.cluster.prepared.key)
        started = time.monotonic()
        while operator.ask_until_answered("GET", "/apiv1/outbox?status=PENDING").data["items"]:
            assert time.monotonic() < started + DRAIN_SECONDS, "the outbox does not drain"
            self.cluster.revive()
            time.sleep(0.05)
        self._drained_seconds = time.monotonic() - started
        self._finish.set()
        _join(threads)
        for device in self.devices:
            afresh = Reader(self.client(device.handle.token), device.handle, self.ledger, self._finish, 0, 99)
            afresh.run()
            self._states.append(_state_of(operator, device))
        operator.close()


@dataclass(frozen=True, slots=True)
class Fault:
    """Something done so many times. `inflict` returns when what it killed was started again: the port of the node it
    befell, None if none in particular. `wait_until_whole` comes first: what was done last is mended by then."""

    name: str
    times: int
    inflict: Callable[[int], int | None]
    wait_until_whole: Callable[[], None] = lambda: None


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), f"{thread.name} does not end"


def _state_of(operator: Client, device: LoadedDevice) -> State:
    hashes: list[str] = []
    after: int | None = 0
    while after is not None:
        page = operator.ask("GET", f"{device.path}/install-config/history?limit=500&after={after}").data
        hashes += [item["installs_hash"] for item in page["items"]]
        after = page["next"]
    return State(device.handle.id, tuple(hashes), frozenset(), "")
