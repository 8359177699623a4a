"""A fault campaign against several nodes: devices and emitters use all of them while one part after another is killed.

Every acknowledged change must be delivered once and in order. The checker is the one of the updates campaign.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.faults.campaigns import join_threads, median_and_worst
from tests.faults.client import Client, NoResponse, register
from tests.faults.nodes.balanced_client import BalancedClient
from tests.faults.nodes.cluster import Cluster
from tests.faults.server_process import TIMEOUT_SECONDS, ServerProcess
from tests.faults.updates.checker import Change, State, Verdict, check
from tests.faults.updates.load import Emitter, LoadedDevice, Observations, Reader

DRAIN_SECONDS = 180.0
# Only custom signals and install configs: they are cheap, so there are many.
WEIGHTS = (6, 2, 0, 0)


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    devices: int = 100
    emitters: int = 8
    uptime_seconds: tuple[float, float] = (0.2, 0.6)


@dataclass(slots=True)
class Report:
    verdict: Verdict
    unexpected: list[str]
    drained_seconds: float
    # For each fault, the times until a poll got a response again: since the restart of the killed part (for a service:
    # since it accepted connections again), and since the kill.
    recovery_seconds: dict[str, list[float]] = field(default_factory=dict)
    downtime_seconds: dict[str, list[float]] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.verdict}; drained in {self.drained_seconds:.2f} s"]
        for fault, seconds in self.recovery_seconds.items():
            lines.append(
                f"{len(seconds)} × {fault}: first poll after the restart {median_and_worst(seconds)}, "
                f"after the kill {median_and_worst(self.downtime_seconds[fault])}"
            )
        return "\n".join(lines)


class NodesCampaign:
    def __init__(self, cluster: Cluster, serving: list[ServerProcess], plan: Plan) -> None:
        self.cluster = cluster
        self.plan = plan
        self.observations = Observations()
        self.devices: list[LoadedDevice] = []
        self.random = random.Random(plan.seed)
        self._ports = [node.port for node in serving]
        self._states: list[State] = []
        self._drained_seconds = 0.0
        self._recovery_seconds: dict[str, list[float]] = {}
        self._downtime_seconds: dict[str, list[float]] = {}
        self._stop, self._finish = threading.Event(), threading.Event()

    def run(self, *faults: "Fault") -> Report:
        with self._under_load() as threads:
            for fault in faults:
                for number in range(fault.times):
                    self._cause(fault, number)
            self._finish_load(threads)
        verdict = check(self.observations.changes, self.observations.readings, self._states)
        unexpected, drained = self.observations.unexpected, self._drained_seconds
        return Report(verdict, unexpected, drained, self._recovery_seconds, self._downtime_seconds)

    def client(self, bearer: str, seed: int = 0) -> BalancedClient:
        return BalancedClient(self._ports, bearer, self.cluster.wait_for_transactions, seed)

    def _cause(self, fault: "Fault", number: int) -> None:
        """Cause the fault once, and wait until a poll gets a response from the affected node, or from any node."""
        time.sleep(self.random.uniform(*self.plan.uptime_seconds))
        fault.wait_until_repaired()
        killed_at = time.monotonic()
        port = fault.cause(number)
        restarted_at = time.monotonic()
        self._wait_for_first_poll(self._ports if port is None else [port])
        now = time.monotonic()
        self._recovery_seconds.setdefault(fault.name, []).append(now - restarted_at)
        self._downtime_seconds.setdefault(fault.name, []).append(now - killed_at)

    def _wait_for_first_poll(self, ports: list[int]) -> None:
        client = BalancedClient(ports, self.devices[0].handle.token, self.cluster.wait_for_transactions)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            try:
                if client.poll("0-0", limit=1).status == 200:
                    client.close()
                    return
            except NoResponse:
                self.cluster.restart_exited()
        raise AssertionError("no poll got a response")

    @contextmanager
    def _under_load(self) -> Iterator[list[threading.Thread]]:
        operator = self.client(self.cluster.prepared.key)
        user_id = self.cluster.prepared.user_id
        for _ in range(self.plan.devices):
            self.devices.append(LoadedDevice(register(operator, self.cluster.prepared), user_id, 0, set()))
        # One signal that the first poll after a fault can read.
        operator.request(
            "POST", f"{self.devices[0].path}/signals", {"type": "app.numbered", "ref": {"number": "first"}}
        )
        self.observations.changes.append(
            Change(self.devices[0].handle.id, ("app.numbered", "first"), acknowledged=True)
        )
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
                self.observations,
                self._stop,
                seed + number,
                WEIGHTS,
            )
            for number in range(share)
        ]

    def _reader(self, device: LoadedDevice, number: int) -> Reader:
        client = self.client(device.handle.token, number)
        return Reader(client, device.handle, self.observations, self._finish, wait=2, limit=3 if number % 3 else 100)

    def _finish_load(self, threads: list[threading.Thread]) -> None:
        """Stop the emitters, wait for delivery, read every device to the end, and once more from the beginning."""
        self._stop.set()
        join_threads(thread for thread in threads if isinstance(thread, Emitter))
        operator = self.client(self.cluster.prepared.key)
        started = time.monotonic()
        while operator.request_until_answered("GET", "/apiv1/outbox?status=PENDING").data["items"]:
            assert time.monotonic() < started + DRAIN_SECONDS, "the outbox does not drain"
            self.cluster.restart_exited()
            time.sleep(0.05)
        self._drained_seconds = time.monotonic() - started
        self._finish.set()
        join_threads(threads)
        for device in self.devices:
            rereader = Reader(self.client(device.handle.token), device.handle, self.observations, self._finish, 0, 99)
            rereader.run()
            self._states.append(_state_of(operator, device))
        operator.close()


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that is caused so many times. `cause` returns after the restart of the killed part: the port of the
    affected node, or None. `wait_until_repaired` is called first and waits until the previous fault is repaired."""

    name: str
    times: int
    cause: Callable[[int], int | None]
    wait_until_repaired: Callable[[], None] = lambda: None


def _state_of(operator: Client, device: LoadedDevice) -> State:
    hashes: list[str] = []
    after: int | None = 0
    while after is not None:
        page = operator.request("GET", f"{device.path}/install-config/history?limit=500&after={after}").data
        hashes += [item["installs_hash"] for item in page["items"]]
        after = page["next"]
    return State(device.handle.id, tuple(hashes), frozenset(), "")
