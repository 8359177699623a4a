"""The load of the kill test: emitters that change things and readers that poll, each writing down what it saw.

Every device has one emitter, which makes one change after the other, so that the order its device must be told in is
known. Every change carries a number, which its signal carries too.
"""

import base64
import hashlib
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.faults.checker import ASSIGNED, INSTALLED, RENEWED, UNASSIGNED, WRAPPED, Change, Key, Reading
from tests.faults.client import Client, DeviceHandle, Unanswered

OWN = "app.numbered"


@dataclass(slots=True)
class Ledger:
    """What happened, as seen from outside. Lists are appended to by many threads, which needs no lock."""

    changes: list[Change] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    # Answers that no healthy server gives, whatever happened to it before.
    surprises: list[str] = field(default_factory=list)


@dataclass(slots=True)
class LoadedDevice:
    """A device with what its emitter must know to go on changing it."""

    handle: DeviceHandle
    user_id: int
    cert_id: int
    serial: str
    number: int = 0

    @property
    def path(self) -> str:
        return f"/apiv1/users/{self.user_id}/devices/{self.handle.id}"

    @property
    def certificate_path(self) -> str:
        return f"/apiv1/users/{self.user_id}/certificates/{self.cert_id}"


def key_of(signal: dict[str, Any]) -> Key:
    """The key of the change that a signal tells about."""
    kind, ref = signal["type"], signal["ref"]
    if kind == INSTALLED:
        return kind, ref["installs_hash_b64"]
    if kind in (ASSIGNED, UNASSIGNED):
        return kind, ref["ca_name"]
    if kind == RENEWED:
        return kind, ref["serial"]
    if kind == WRAPPED:
        return kind, str(ref["cert_id"])
    return kind, str(ref.get("number"))


def installs_numbered(number: int) -> tuple[list[dict[str, Any]], str]:
    """Items that no other change has, and their hash as the device will be told it."""
    installs = [{"id": f"change-{number}", "type": "exec", "cmd": "true", "enabled": True}]
    canonical = json.dumps(installs, sort_keys=True, separators=(",", ":")).encode()
    return installs, base64.b64encode(hashlib.sha256(canonical).digest()).decode()


class Emitter(threading.Thread):
    """Changes its devices, one change at a time, until told to stop."""

    def __init__(
        self,
        client: Client,
        devices: list[LoadedDevice],
        ledger: Ledger,
        stop: threading.Event,
        seed: int,
        weights: tuple[int, int, int, int] = (6, 4, 2, 1),
    ) -> None:
        super().__init__(name=f"emitter-{seed}", daemon=True)
        self._weights = weights
        self._client = client
        self._devices = devices
        self._ledger = ledger
        self._stopping = stop
        self._random = random.Random(seed)

    def run(self) -> None:
        kinds = (self._send, self._install, self._trust, self._renew)
        try:
            while not self._stopping.is_set():
                device = self._random.choice(self._devices)
                device.number += 1
                self._random.choices(kinds, self._weights)[0](device)
        except Exception as error:
            self._ledger.surprises.append(f"{self.name} ended: {error!r}")
        finally:
            self._client.close()

    def _send(self, device: LoadedDevice) -> None:
        body = {"type": OWN, "ref": {"number": device.number}}
        self._change(device, (OWN, str(device.number)), "POST", f"{device.path}/signals", body)

    def _install(self, device: LoadedDevice) -> None:
        installs, hash_b64 = installs_numbered(device.number)
        self._change(device, (INSTALLED, hash_b64), "PUT", f"{device.path}/install-config", {"installs": installs})

    def _trust(self, device: LoadedDevice) -> None:
        """Assign an authority made for the purpose, and most times take it away again."""
        name = f"authority-{device.number}"
        try:
            made = self._client.ask("POST", f"/apiv1/users/{device.user_id}/cas", {"name": name})
        except Unanswered:
            return
        ca_id = made.data["id"]
        assigned = self._change(device, (ASSIGNED, name), "POST", f"{device.path}/cas", {"ca_id": ca_id})
        if self._random.random() < 0.8:
            # Only an authority whose assignment was never answered may turn out not to be there.
            allowed = () if assigned else (404,)
            self._change(device, (UNASSIGNED, name), "DELETE", f"{device.path}/cas/{ca_id}", None, allowed)

    def _renew(self, device: LoadedDevice) -> None:
        """Renew; where no answer comes, the certificate itself says whether it happened."""
        try:
            reply = self._client.ask("POST", f"{device.certificate_path}/issues", {})
        except Unanswered:
            reply = self._client.ask_until_answered("GET", device.certificate_path)
        serial = reply.data["serial"]
        if serial != device.serial:
            device.serial = serial
            self._ledger.changes.append(Change(device.handle.id, (RENEWED, serial), acknowledged=True))

    def _change(
        self,
        device: LoadedDevice,
        key: Key,
        method: str,
        path: str,
        body: object,
        allowed: tuple[int, ...] = (),
    ) -> bool:
        """Make a change and write down what is known of it; whether it was acknowledged."""
        try:
            reply = self._client.ask(method, path, body)
        except Unanswered:
            self._ledger.changes.append(Change(device.handle.id, key, acknowledged=False))
            return False
        if 200 <= reply.status < 300:
            self._ledger.changes.append(Change(device.handle.id, key, acknowledged=True))
            return True
        if reply.status not in allowed:
            self._ledger.surprises.append(f"{method} {path}: {reply.status} {reply.body}")
        return False


class Reader(threading.Thread):
    """Polls for one device with a cursor that it never loses; after `finish` it goes on until all is read."""

    def __init__(
        self, client: Client, device: DeviceHandle, ledger: Ledger, finish: threading.Event, wait: int, limit: int
    ) -> None:
        super().__init__(name=f"reader wait={wait} limit={limit}", daemon=True)
        self._client = client
        self._device = device
        self._ledger = ledger
        self._finish = finish
        self._wait = wait
        self._limit = limit
        self.cursor = "0-0"

    def run(self) -> None:
        try:
            while not self._read_once():
                pass
        except Exception as error:
            self._ledger.surprises.append(f"{self.name} of device {self._device.id} ended: {error!r}")
        finally:
            self._client.close()

    def _read_once(self) -> bool:
        """Poll once; whether everything there will ever be has been read."""
        is_last = self._finish.is_set()
        try:
            reply = self._client.poll(self.cursor, 0 if is_last else self._wait, self._limit)
        except Unanswered:
            return False
        if reply.status == 200:
            self._note(reply.data["cursor"], tuple(key_of(signal) for signal in reply.data["signals"]))
            return False
        if reply.status == 204:
            self._note(reply.headers["ETag"], ())
            if not self._wait:
                time.sleep(0.03)
            return is_last
        self._ledger.surprises.append(f"{self.name}, device {self._device.id}: {reply.status} {reply.body}")
        return True

    def _note(self, cursor: str, keys: tuple[Key, ...]) -> None:
        if keys or cursor != self.cursor:
            reading = Reading(self.name, self._device.id, self.cursor, cursor, keys)
            self._ledger.readings.append(reading)
            self.cursor = cursor
