"""A running server with devices of one user, for fault tests."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.faults.client import Client, DeviceHandle, Response, register
from tests.faults.server_process import (
    NO_RATE_LIMIT,
    PROGRAM,
    PreparedData,
    ServerProcess,
    prepare_data,
    running_server,
)

POLLS_MAX = 64
PARKED_METRIC = "restante_parked_polls"


class DeviceServer:
    def __init__(self, process: ServerProcess, prepared: PreparedData, threads: ThreadPoolExecutor) -> None:
        self.process = process
        self.prepared = prepared
        self._threads = threads
        self._clients: list[Client] = []
        self.operator = self.client(prepared.key)

    @property
    def data(self) -> Path:
        return self.prepared.data

    def client(self, bearer: str) -> Client:
        """A client that is closed together with this object."""
        client = Client(self.process.port, bearer)
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
        """A client that has polled once, so that the fast lane has cached its token."""
        client = self.client(device.token)
        assert client.poll("0-0").status in (200, 204)
        return client

    def send(self, device: DeviceHandle, **ref: Any) -> Response:
        return self.operator.request("POST", f"{self.device_path(device)}/signals", {"type": "app.test", "ref": ref})

    def park(
        self, device: DeviceHandle, *, cursor: str = "0-0", wait: int = 30, fast_lane: bool = True
    ) -> "Future[Response]":
        """Start a long poll in a thread; it is parked at the server when this returns."""
        parked_before = self.process.metric(PARKED_METRIC)
        client = self.client_of(device)
        poll = self._threads.submit(client.poll, cursor, wait, fast_lane=fast_lane)
        self.process.wait_for_metric(PARKED_METRIC, parked_before + 1)
        return poll

    def refs_of(self, device: DeviceHandle) -> list[dict[str, Any]]:
        """The refs of all signals of the device, read from the beginning."""
        client, cursor, refs = self.client_of(device), "0-0", []
        while (response := client.poll(cursor, limit=100)).status == 200:
            refs += [signal["ref"] for signal in response.data["signals"]]
            cursor = response.data["cursor"]
        assert response.status == 204, response
        return refs


@contextmanager
def running_device_server(folder: Path, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> Iterator[DeviceServer]:
    prepared = prepare_data(folder / "data")
    with (
        ThreadPoolExecutor(POLLS_MAX) as threads,
        running_server(prepared.data, *NO_RATE_LIMIT, *flags, command=command) as process,
        closing(DeviceServer(process, prepared, threads)) as server,
    ):
        yield server
