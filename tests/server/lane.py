"""A served node with a device that is known to the fast lane, for the tests that talk to it byte by byte."""

from pathlib import Path
from typing import Any, NamedTuple

from restante.delivery import log
from restante.delivery.signals import Signal
from tests.identity.population import add_device, add_user
from tests.server.serving import Served, Wire

PATH = b"/apiv1/devices/self/updates"

# Paces that do not change with the second of the test.
SETTINGS: dict[str, Any] = {"poll_burst": 1_000_000, "poll_interval_seconds": 1, "rollout_poll_interval_seconds": 1}


class Device(NamedTuple):
    id: int
    token: bytes

    def poll(self, query: bytes = b"", *lines: bytes) -> bytes:
        """A poll as most clients send it, in one piece."""
        head = [b"GET %b%b HTTP/1.1" % (PATH, query), b"Host: x", b"Authorization: Bearer " + self.token]
        return b"\r\n".join([*head, *lines, b"", b""])


class Lane:
    """A server with one device that has three signals, and whose token is remembered."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.served = Served(folder, **SETTINGS, **settings)
        self.node = self.served.node
        self._user_id = add_user(self.node.database)
        self.device = self.add_device()

    def add_device(self) -> Device:
        database = self.node.database
        device_id = add_device(database, self._user_id)
        signals = [Signal("app.note", n, {"n": n}) for n in range(1, 4)]
        database.write_now(log.append, device_id, signals)
        token = self.node.tokens.mint(self._user_id, device_id)
        self.served.wait_for(self.node.tokens.verify(token))
        return Device(device_id, token.encode())

    def publish(self, device: Device) -> None:
        self.node.database.write_now(log.append, device.id, [Signal("app.news", 1, {})])

    def cursor(self, device: Device) -> bytes:
        return str(self.node.database.read_now(log.read_head, device.id).newest).encode()

    @property
    def hot_requests(self) -> int:
        return self.node.lane.hot_requests

    def send_hot(self, wire: Wire, data: bytes) -> None:
        """Send what the lane will take, and wait until it has."""
        before = self.hot_requests
        wire.send(data)
        self.served.until(lambda: self.hot_requests == before + 1)

    def park(self, wire: Wire, device: Device) -> None:
        before = self.node.poll.bell.waiting_count
        wire.send(device.poll(b"?wait=30", b"If-None-Match: " + self.cursor(device)))
        self.served.until(lambda: self.node.poll.bell.waiting_count == before + 1)

    def until_nobody_waits(self) -> None:
        self.served.until(lambda: self.node.poll.bell.waiting_count == 0)
