"""A fault campaign against one server: load, repeated kills, draining at the end, and a check of all observations.

`kill_schedule` decides when the server is killed; `planted_bugs` has builds with a bug that the checker must find.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.campaigns import join_threads
from tests.faults.client import Client, DeviceHandle, register
from tests.faults.deployments import SingleServer
from tests.faults.kill_campaign import KillCampaign, KillReport, drain, wait_for_response
from tests.faults.kill_schedule import KillPlan
from tests.faults.server_process import NO_RATE_LIMIT, PreparedData, ServerProcess
from tests.faults.updates.checker import State, Verdict, check
from tests.faults.updates.load import Emitter, LoadedDevice, Observations, Reader

DRAIN_SECONDS = 40.0
# Signals are kept long enough that a reader can read all of them from the beginning at the end.
FLAGS = (*NO_RATE_LIMIT, "--log-keep-signals", "1000000", "--log-level", "warning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(KillPlan):
    devices: int = 20
    emitters: int = 5
    uptime_seconds: tuple[float, float] = (0.2, 1.0)


Report = KillReport[Verdict]


class UpdatesCampaign(KillCampaign[Plan, Report]):
    def __init__(self, folder: Path, plan: Plan, *flags: str) -> None:
        super().__init__(plan, SingleServer(folder, *FLAGS, *flags))
        self.prepared = self.deployment.prepared
        self.observations = Observations()
        self.devices: list[LoadedDevice] = []
        self._threads: list[threading.Thread] = []
        self._finish = threading.Event()

    @contextmanager
    def _under_load(self) -> Iterator[None]:
        try:
            self.deployment.start()
            operator = self._client(self.prepared.key)
            self.devices = [_add_device(operator, self.prepared, number) for number in range(self.plan.devices)]
            operator.close()
            readers = [self._reader(device.handle, number) for number, device in enumerate(self.devices)]
            self._threads = [*self._emitters(), *readers]
            for thread in self._threads:
                thread.start()
            yield
        finally:
            self._stop.set()
            self._finish.set()
            self.deployment.end()

    def _client(self, bearer: str) -> Client:
        return Client(self.deployment.ports[0], bearer)

    def _emitters(self) -> list[Emitter]:
        share = self.plan.emitters
        return [
            Emitter(
                self._client(self.prepared.key),
                self.devices[number::share],
                self.observations,
                self._stop,
                self.plan.seed * 1000 + number,
            )
            for number in range(share)
        ]

    def _reader(self, device: DeviceHandle, number: int) -> Reader:
        """Every other reader uses long polls; some read few signals at a time."""
        client = self._client(device.token)
        return Reader(
            client, device, self.observations, self._finish, wait=2 * (number % 2), limit=3 if number % 3 else 100
        )

    def _wait_until_served(self, server: ServerProcess) -> None:
        wait_for_response(server, self.devices[0].handle.token, lambda client: client.poll("0-0", limit=1))

    def _report(self, recovery_seconds: list[float]) -> Report:
        """Stop the emitters, wait for delivery, read every device to the end, and once more from the beginning."""
        self._stop.set()
        join_threads(thread for thread in self._threads if isinstance(thread, Emitter))
        operator = self._client(self.prepared.key)
        drained_seconds = drain(lambda: not self._is_drained(operator), DRAIN_SECONDS)
        operator.close()
        assert drained_seconds < DRAIN_SECONDS, "the outbox does not drain"
        self._finish.set()
        rereaders = [
            Reader(self._client(device.handle.token), device.handle, self.observations, self._finish, 0, 99)
            for device in self.devices
        ]
        for reader in rereaders:
            reader.start()
        join_threads([*self._threads, *rereaders])
        states = [self._state_of(device) for device in self.devices]
        return Report(
            verdict=check(self.observations.changes, self.observations.readings, states),
            unexpected=self.observations.unexpected,
            kills=self.plan.kills,
            drained_seconds=drained_seconds,
            recovery_seconds=recovery_seconds,
        )

    def _is_drained(self, operator: Client) -> bool:
        wrapped = all(
            entry["wrap_status"] == "ready"
            for device in self.devices
            for entry in operator.request("GET", f"{device.path}/certificates").data
        )
        return wrapped and not operator.request("GET", "/apiv1/outbox?status=PENDING").data["items"]

    def _state_of(self, device: LoadedDevice) -> State:
        operator = self._client(self.prepared.key)
        try:
            history = _all_items(operator, f"{device.path}/install-config/history")
            trusted = _all_items(operator, f"{device.path}/cas")
            serial = operator.request("GET", device.certificate_path).data["serial"]
        finally:
            operator.close()
        return State(
            device.handle.id,
            tuple(item["installs_hash"] for item in history),
            frozenset(item["ca_name"] for item in trusted),
            serial,
        )


def _add_device(operator: Client, prepared: PreparedData, number: int) -> LoadedDevice:
    """Register a device and issue a certificate to it."""
    own = f"/apiv1/users/{prepared.user_id}"
    handle = register(operator, prepared)
    ca_id = operator.request("POST", f"{own}/cas", {"name": f"issuer-{number}"}).data["id"]
    account = {"name": "issuing", "email": "owner@example.com", "provider": "own", "ca_id": ca_id}
    acct_id = operator.request("POST", f"{own}/acme-accounts", account).data["id"]
    certificate = {"domain_name": f"d{number}.example.com", "acct_id": acct_id}
    cert_id = operator.request("POST", f"{own}/certificates", certificate).data["id"]
    issued = operator.request("POST", f"{own}/certificates/{cert_id}/issues", {}).data
    assigned = operator.request("POST", f"{own}/devices/{handle.id}/certificates", {"cert_id": cert_id})
    assert assigned.status == 200, assigned
    return LoadedDevice(handle, prepared.user_id, cert_id, {issued["serial"]})


def _all_items(operator: Client, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = operator.request("GET", f"{path}?page=object&limit=500&after={after}").data
        items += page["items"]
        after = page["next"]
    return items
