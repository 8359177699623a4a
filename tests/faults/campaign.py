"""A campaign: a server under load, killed again and again, drained at the end, and everything written down.

How and when the server dies is the business of lives.py; what may be wrong with it, of sabotage.py.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.checker import State, Verdict, check
from tests.faults.client import Client, DeviceHandle, Unanswered, register
from tests.faults.lives import kill_again_and_again, let_end_itself
from tests.faults.load import Emitter, Ledger, LoadedDevice, Reader
from tests.faults.server_process import PATIENCE_SECONDS, UNPACED, Prepared, ServerProcess, prepare

DRAIN_SECONDS = 40.0
# Kept long enough that a reader that starts from the beginning at the end finds all of it.
FLAGS = (*UNPACED, "--log-keep-signals", "1000000", "--log-level", "warning")


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    kills: int
    devices: int = 20
    emitters: int = 5
    life_seconds: tuple[float, float] = (0.2, 1.0)
    early_share: float = 0.15


@dataclass(slots=True)
class Report:
    verdict: Verdict
    surprises: list[str]
    kills: int
    drained_seconds: float
    back_seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        back = sorted(self.back_seconds)
        middle = f"{back[len(back) // 2]:.2f} s, worst {back[-1]:.2f} s" if back else "not measured"
        return (
            f"{self.kills} kills; {self.verdict}; first good poll after a kill: median {middle}; "
            f"drained in {self.drained_seconds:.2f} s"
        )


class Campaign:
    def __init__(self, folder: Path, plan: Plan, *flags: str) -> None:
        self.plan = plan
        self.ledger = Ledger()
        self.prepared = prepare(folder / "data")
        self.server = ServerProcess(self.prepared.data, *FLAGS, *flags)
        self.devices: list[LoadedDevice] = []
        self._random = random.Random(plan.seed)
        self._states: list[State] = []
        self._drained_seconds = 0.0
        self._stop, self._finish = threading.Event(), threading.Event()

    def run_with_kills(self) -> Report:
        """The honest server, killed from outside."""
        with self._under_load() as threads:
            back_seconds = kill_again_and_again([self.server], self.plan, self._random, self._first_good_poll)
            self._finish_load(threads)
        return self._report(self.plan.kills, back_seconds)

    def run_with_suicides(self, dying: tuple[str, ...], living: tuple[str, ...]) -> Report:
        """A sabotaged server, which ends itself as often as planned."""
        with self._under_load() as threads:
            let_end_itself(self.server, self.plan, dying, living)
            self._finish_load(threads)
        return self._report(self.plan.kills, [])

    @contextmanager
    def _under_load(self) -> Iterator[list[threading.Thread]]:
        self.server.start()
        self.server.wait_until_ready()
        threads: list[threading.Thread] = []
        try:
            operator = Client(self.server.port, self.prepared.key)
            self.devices = [_add_device(operator, self.prepared, number) for number in range(self.plan.devices)]
            operator.close()
            threads += self._emitters()
            threads += [self._reader(device.handle, number) for number, device in enumerate(self.devices)]
            for thread in threads:
                thread.start()
            yield threads
        finally:
            self._stop.set()
            self._finish.set()
            self.server.end()

    def _emitters(self) -> list[Emitter]:
        share = self.plan.emitters
        return [
            Emitter(
                Client(self.server.port, self.prepared.key),
                self.devices[number::share],
                self.ledger,
                self._stop,
                self.plan.seed * 1000 + number,
            )
            for number in range(share)
        ]

    def _reader(self, device: DeviceHandle, number: int) -> Reader:
        """Every other reader waits; some take little at a time."""
        client = Client(self.server.port, device.token)
        return Reader(client, device, self.ledger, self._finish, wait=2 * (number % 2), limit=3 if number % 3 else 100)

    def _first_good_poll(self, _server: ServerProcess) -> None:
        client = Client(self.server.port, self.devices[0].handle.token)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                if client.poll("0-0", limit=1).status == 200:
                    break
            except Unanswered:
                continue
        client.close()

    def _finish_load(self, threads: list[threading.Thread]) -> None:
        """No more changes; all that is on its way arrives; every device is read to its end, and once afresh."""
        self._stop.set()
        for thread in threads:
            if isinstance(thread, Emitter):
                thread.join(PATIENCE_SECONDS)
        self._wait_until_drained()
        self._finish.set()
        afresh = [
            Reader(Client(self.server.port, device.handle.token), device.handle, self.ledger, self._finish, 0, 99)
            for device in self.devices
        ]
        for reader in afresh:
            reader.start()
        for thread in (*threads, *afresh):
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive(), f"{thread.name} does not end"
        self._states = [self._state_of(device) for device in self.devices]

    def _wait_until_drained(self) -> None:
        operator = Client(self.server.port, self.prepared.key)
        started = time.monotonic()
        while not self._is_drained(operator):
            assert time.monotonic() < started + DRAIN_SECONDS, "the outbox does not drain"
            time.sleep(0.05)
        self._drained_seconds = time.monotonic() - started
        operator.close()

    def _is_drained(self, operator: Client) -> bool:
        wrapped = all(
            entry["wrap_status"] == "ready"
            for device in self.devices
            for entry in operator.ask("GET", f"{device.path}/certificates").data["items"]
        )
        return wrapped and not operator.ask("GET", "/apiv1/outbox?status=PENDING").data["items"]

    def _state_of(self, device: LoadedDevice) -> State:
        operator = Client(self.server.port, self.prepared.key)
        try:
            history = _all_items(operator, f"{device.path}/install-config/history")
            trusted = _all_items(operator, f"{device.path}/cas")
            serial = operator.ask("GET", device.certificate_path).data["serial"]
        finally:
            operator.close()
        return State(
            device.handle.id,
            tuple(item["installs_hash"] for item in history),
            frozenset(item["ca_name"] for item in trusted),
            serial,
        )

    def _report(self, kills: int, back_seconds: list[float]) -> Report:
        verdict = check(self.ledger.changes, self.ledger.readings, self._states)
        return Report(verdict, self.ledger.surprises, kills, self._drained_seconds, back_seconds)


def _add_device(operator: Client, prepared: Prepared, number: int) -> LoadedDevice:
    """A device with an issued certificate."""
    own = f"/apiv1/users/{prepared.user_id}"
    handle = register(operator, prepared)
    ca_id = operator.ask("POST", f"{own}/cas", {"name": f"issuer-{number}"}).data["id"]
    account = {"name": "issuing", "email": "owner@example.com", "provider": "own", "ca_id": ca_id}
    acct_id = operator.ask("POST", f"{own}/acme-accounts", account).data["id"]
    wanted = {"domain_name": f"d{number}.example.com", "acct_id": acct_id}
    cert_id = operator.ask("POST", f"{own}/certificates", wanted).data["id"]
    issued = operator.ask("POST", f"{own}/certificates/{cert_id}/issues", {}).data
    assigned = operator.ask("POST", f"{own}/devices/{handle.id}/certificates", {"cert_id": cert_id})
    assert assigned.status == 200, assigned
    return LoadedDevice(handle, prepared.user_id, cert_id, issued["serial"])


def _all_items(operator: Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = operator.ask("GET", f"{path}?limit=500&after={after}").data
        items += page["items"]
        after = page["next"]
    return items
