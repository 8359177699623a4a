"""The load of the kill test: emitters make changes and readers poll, and each records what it observed.

Every device has one emitter, which makes one change after the other, so the order of the device's signals is known.
Every change carries a number, and its signal carries the same number.
"""

import base64
import hashlib
import json
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.faults.client import Client, DeviceHandle, NoResponse
from tests.faults.updates.checker import (
    ASSIGNED,
    INSTALLED,
    RENEWED,
    UNASSIGNED,
    UPDATED,
    WRAPPED,
    Change,
    Key,
    Reading,
)

OWN_TYPE = "app.numbered"


@dataclass(slots=True)
class Observations:
    """What clients observed. Many threads append to the lists, which needs no lock."""

    changes: list[Change] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    # Responses that a correct server never sends, even after a kill, and errors of the load itself.
    unexpected: list[str] = field(default_factory=list)


@dataclass(slots=True)
class LoadedDevice:
    """A device, and the state that its emitter needs to make the next change."""

    handle: DeviceHandle
    user_id: int
    cert_id: int
    serials: set[str]
    number: int = 0

    @property
    def path(self) -> str:
        return f"/apiv1/users/{self.user_id}/devices/{self.handle.id}"

    @property
    def certificate_path(self) -> str:
        return f"/apiv1/users/{self.user_id}/certificates/{self.cert_id}"


def key_of(signal: dict[str, Any]) -> Key:
    """The key of the change that a signal announces."""
    kind, ref = signal["type"], signal["ref"]
    if kind == INSTALLED:
        return kind, ref["installs_hash_b64"]
    if kind in (ASSIGNED, UNASSIGNED):
        return kind, ref["ca_name"]
    if kind in (RENEWED, UPDATED):
        return kind, ref["serial"]
    if kind == WRAPPED:
        return kind, str(ref["cert_id"])
    return kind, str(ref.get("number"))


def numbered_installs(number: int) -> tuple[list[dict[str, Any]], str]:
    """Install items that are unique to a change, and their hash as in the signal."""
    installs = [{"id": f"change-{number}", "type": "exec", "cmd": "true", "enabled": True}]
    canonical = json.dumps(installs, sort_keys=True, separators=(",", ":")).encode()
    return installs, base64.b64encode(hashlib.sha256(canonical).digest()).decode()


class Emitter(threading.Thread):
    """Changes its devices, one change at a time, until the stop event is set."""

    def __init__(
        self,
        client: Client,
        devices: list[LoadedDevice],
        observations: Observations,
        stop: threading.Event,
        seed: int,
        weights: tuple[int, int, int, int] = (6, 4, 2, 1),
    ) -> None:
        super().__init__(name=f"emitter-{seed}", daemon=True)
        self._weights = weights
        self._client = client
        self._devices = devices
        self._observations = observations
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
            self._observations.unexpected.append(f"{self.name} ended: {error!r}")
        finally:
            self._client.close()

    def _send(self, device: LoadedDevice) -> None:
        body = {"type": OWN_TYPE, "ref": {"number": device.number}}
        self._change(device, (OWN_TYPE, str(device.number)), "POST", f"{device.path}/signals", body)

    def _install(self, device: LoadedDevice) -> None:
        installs, hash_b64 = numbered_installs(device.number)
        self._change(device, (INSTALLED, hash_b64), "PUT", f"{device.path}/install-config", {"installs": installs})

    def _trust(self, device: LoadedDevice) -> None:
        """Assign a new authority, and most times unassign it again."""
        name = f"authority-{device.number}"
        try:
            created = self._client.request("POST", f"/apiv1/users/{device.user_id}/cas", {"name": name})
        except NoResponse:
            return
        ca_id = created.data["id"]
        assigned = self._change(device, (ASSIGNED, name), "POST", f"{device.path}/cas", {"ca_id": ca_id})
        if self._random.random() < 0.8:
            # A 404 is allowed only if the assignment got no response.
            allowed = () if assigned else (404,)
            self._change(device, (UNASSIGNED, name), "DELETE", f"{device.path}/cas/{ca_id}", None, allowed)

    def _renew(self, device: LoadedDevice) -> None:
        """Renew the certificate; without a response, read the certificate to see whether it was renewed.

        A server that loses an acknowledged renewal has an earlier serial again: that is not another renewal.
        """
        try:
            response = self._client.request("POST", f"{device.certificate_path}/issues", {})
        except NoResponse:
            response = self._client.request_until_answered("GET", device.certificate_path)
        serial = response.data["serial"]
        if serial not in device.serials:
            device.serials.add(serial)
            self._observations.changes.append(Change(device.handle.id, (RENEWED, serial), acknowledged=True))

    def _change(
        self,
        device: LoadedDevice,
        key: Key,
        method: str,
        path: str,
        body: object,
        allowed: tuple[int, ...] = (),
    ) -> bool:
        """Make a change and record the outcome; returns whether it was acknowledged."""
        try:
            response = self._client.request(method, path, body)
        except NoResponse:
            self._observations.changes.append(Change(device.handle.id, key, acknowledged=False))
            return False
        if 200 <= response.status < 300:
            self._observations.changes.append(Change(device.handle.id, key, acknowledged=True))
            return True
        if response.status not in allowed:
            self._observations.unexpected.append(f"{method} {path}: {response.status} {response.body}")
        return False


class Reader(threading.Thread):
    """Polls for one device with a cursor that it never loses; after `finish` is set it reads to the end."""

    def __init__(
        self,
        client: Client,
        device: DeviceHandle,
        observations: Observations,
        finish: threading.Event,
        wait: int,
        limit: int,
    ) -> None:
        super().__init__(name=f"reader wait={wait} limit={limit}", daemon=True)
        self._client = client
        self._device = device
        self._observations = observations
        self._finish = finish
        self._wait = wait
        self._limit = limit
        self.cursor = "0-0"

    def run(self) -> None:
        try:
            while not self._read_once():
                pass
        except Exception as error:
            self._observations.unexpected.append(f"{self.name} of device {self._device.id} ended: {error!r}")
        finally:
            self._client.close()

    def _read_once(self) -> bool:
        """Poll once; returns whether the device has been read to the end."""
        is_last = self._finish.is_set()
        try:
            response = self._client.poll(self.cursor, 0 if is_last else self._wait, self._limit)
        except NoResponse:
            return False
        if response.status == 200:
            self._record(response.data["cursor"], tuple(key_of(signal) for signal in response.data["signals"]))
            return False
        if response.status == 204:
            self._record(response.headers["ETag"], ())
            if not self._wait:
                time.sleep(0.03)
            return is_last
        self._observations.unexpected.append(
            f"{self.name}, device {self._device.id}: {response.status} {response.body}"
        )
        return True

    def _record(self, cursor: str, keys: tuple[Key, ...]) -> None:
        if keys or cursor != self.cursor:
            reading = Reading(self.name, self._device.id, self.cursor, cursor, keys)
            self._observations.readings.append(reading)
            self.cursor = cursor
