"""A server with a few devices of one user: what most fault tests start from."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.faults.client import Client, DeviceHandle, Reply, register
from tests.faults.server_process import PROGRAM, UNPACED, Prepared, ServerProcess, prepare, running

POLLS_MAX = 64
PARKED_METRIC = "restante_parked_polls"


class Site:
    def __init__(self, server: ServerProcess, prepared: Prepared, threads: ThreadPoolExecutor) -> None:
        self.server = server
        self.prepared = prepared
        self._threads = threads
        self._clients: list[Client] = []
        self.operator = self.client(prepared.key)

    @property
    def data(self) -> Path:
        return self.prepared.data

    def client(self, bearer: str) -> Client:
        """A client that is closed with the site."""
        client = Client(self.server.port, bearer)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def add_device(self) -> DeviceHandle:
        return register(self.operator, self.prepared)

    def device_path(self, device: DeviceHandle) -> str:
        return f"/apiv1/users/{self.prepared.user_id}/devices/{device.id}"

    def client_of(self, device: DeviceHandle) -> Client:
        """A client whose first poll is behind it, so that the fast lane knows its token."""
        client = self.client(device.token)
        assert client.poll("0-0").status in (200, 204)
        return client

    def send(self, device: DeviceHandle, **ref: Any) -> Reply:
        return self.operator.ask("POST", f"{self.device_path(device)}/signals", {"type": "app.test", "ref": ref})

    def park(self, device: DeviceHandle, *, cursor: str = "0-0", wait: int = 30, fast: bool = True) -> "Future[Reply]":
        """A long poll under way in a thread of its own; it is parked at the server when this returns."""
        parked_before = self.server.metric(PARKED_METRIC)
        client = self.client_of(device)
        answer = self._threads.submit(client.poll, cursor, wait, fast=fast)
        self.server.wait_for_metric(PARKED_METRIC, parked_before + 1)
        return answer

    def refs_of(self, device: DeviceHandle) -> list[dict[str, Any]]:
        """All that the device was ever sent, as a client that starts from the beginning reads it."""
        client, cursor, refs = self.client_of(device), "0-0", []
        while (reply := client.poll(cursor, limit=100)).status == 200:
            refs += [signal["ref"] for signal in reply.data["signals"]]
            cursor = reply.data["cursor"]
        assert reply.status == 204, reply
        return refs


@contextmanager
def site(folder: Path, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> Iterator[Site]:
    prepared = prepare(folder / "data")
    with (
        ThreadPoolExecutor(POLLS_MAX) as threads,
        running(prepared.data, *UNPACED, *flags, command=command) as server,
        closing(Site(server, prepared, threads)) as running_site,
    ):
        yield running_site
