"""A running server with a device whose token is cached, for tests with raw polls."""

from pathlib import Path
from typing import Any, NamedTuple

from restante.delivery.log import log
from restante.delivery.log.signals import Signal
from tests.defaults import append_signals
from tests.identity.people_and_devices import add_device, add_user
from tests.server.live_server import LiveServer, RawConnection

PATH = b"/apiv1/devices/self/updates"

# Intervals that do not depend on the time of the test.
SETTINGS: dict[str, Any] = {"poll_burst": 1_000_000, "poll_interval_seconds": 1, "boost_poll_interval_seconds": 1}


class Device(NamedTuple):
    id: int
    token: bytes

    def poll(self, query: bytes = b"", *lines: bytes) -> bytes:
        """A poll as most clients send it."""
        head = [b"GET %b%b HTTP/1.1" % (PATH, query), b"Host: x", b"Authorization: Bearer " + self.token]
        return b"\r\n".join([*head, *lines, b"", b""])


class DeviceServer:
    """A server with one device that has three signals and a cached token."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.live_server = LiveServer(folder, **SETTINGS, **settings)
        self.node = self.live_server.node
        self._user_id = add_user(self.node.database)
        self.device = self.add_device()

    def add_device(self) -> Device:
        database = self.node.database
        device_id = add_device(database, self._user_id)
        signals = [Signal("app.note", n, {"n": n}) for n in range(1, 4)]
        database.write_now(append_signals, device_id, signals)
        token = self.node.identity.device_tokens.mint(self._user_id, device_id)
        self.live_server.wait_for(self.node.identity.device_tokens.verify(token))
        return Device(device_id, token.encode())

    def publish(self, device: Device) -> None:
        self.node.database.write_now(append_signals, device.id, [Signal("app.news", 1, {})])

    def cursor(self, device: Device) -> bytes:
        return str(self.node.database.read_now(log.read_head, device.id).newest).encode()

    @property
    def fast_requests(self) -> int:
        return self.node.lane.fast_requests

    def send_fast(self, wire: RawConnection, data: bytes) -> None:
        """Send a fast request, and wait until the fast lane has recognized it."""
        before = self.fast_requests
        wire.send(data)
        self.live_server.wait_until(lambda: self.fast_requests == before + 1)

    def park(self, wire: RawConnection, device: Device) -> None:
        before = self.node.updates.poll.parked_count
        wire.send(device.poll(b"?wait=30", b"If-None-Match: " + self.cursor(device)))
        self.live_server.wait_until(lambda: self.node.updates.poll.parked_count == before + 1)

    def wait_until_none_parked(self) -> None:
        self.live_server.wait_until(lambda: self.node.updates.poll.parked_count == 0)
