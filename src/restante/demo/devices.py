"""The simulated devices: each is a `DeviceClient` with a state folder, as a device in the field would be.

A device fetches a new install config, needs some seconds to apply it, and reports the result. A device with an old card
reader cannot apply a config with new reader firmware: it reports that, and the rollout that brought the config
pauses. Some devices are switched off for a while, so that they become overdue.
"""

import asyncio
import base64
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from restante_client import DeviceClient, InstallConfig, Signal
from restante_client.device.models import Session
from restante_client.errors import Forbidden, RestanteError, SessionEnded, Unreachable
from restante_client.runtime import AsyncRuntime

from restante.demo import tasks
from restante.demo.operators import Operators
from restante.demo.world import SimulatedDevice

# Each device may have a long poll and another request at the same time.
CONNECTIONS_PER_DEVICE = 2
RETRY_SECONDS = 5.0
READER_ITEM = "card-reader"
READER_ERROR = "card-reader: firmware 4.2 needs reader hardware 2, found 1"
APPLY_SECONDS = (0.5, 4.0)


@dataclass(slots=True)
class RunningDevice:
    device: SimulatedDevice
    id: int
    client: DeviceClient
    random: random.Random
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class Fleet:
    """All simulated devices. They share one pool of connections to the server."""

    folder: Path
    operators: Operators
    # Gets a text if a device fails in a way that no device in the field should.
    complain: Callable[[str], None]
    devices_max: int
    runtime: AsyncRuntime = field(init=False)
    devices: dict[int, RunningDevice] = field(default_factory=dict)

    def __post_init__(self) -> None:
        connections = CONNECTIONS_PER_DEVICE * self.devices_max
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self.runtime = AsyncRuntime(**self.operators.http, limits=limits)

    async def register(self, devices: Iterable[SimulatedDevice], owner: str) -> None:
        """Let an operator register the devices, one after another, so that their ids follow their order."""
        for device in devices:
            client = DeviceClient(self.operators.url, self.folder / f"{device.number:04}", runtime=self.runtime)
            client.store.state.write("public_id", device.public_id.encode())
            made: Any = await self.operators[owner].devices.register(
                self.operators.user_ids[owner],
                device_public_id=device.public_id,
                dev_pk=base64.b64encode(bytes(client.store.private_key.public_key)).decode(),
                platform=device.platform,
                model=device.model,
                app_version=device.app_version,
                name=device.name,
            )
            session = made["session"]
            device_id = int(made["device"]["id"])
            client.store.save_registration(
                device_id, Session(session["access_token"], session["refresh_token"], session["expires_in"])
            )
            source = random.Random(f"{device.public_id}")  # noqa: S311 — how long it takes, not a secret
            self.devices[device.number] = RunningDevice(device, device_id, client, source)

    def start(self) -> None:
        for running in self.devices.values():
            self.switch_on(running)

    def switch_on(self, running: RunningDevice) -> None:
        if running.task is None or running.task.done():
            running.task = asyncio.create_task(_live(running), name=running.device.name)
            running.task.add_done_callback(self._check)

    def _check(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.complain(f"device {task.get_name()} failed: {error!r}")

    async def switch_off(self, running: RunningDevice) -> None:
        """Ends without finishing anything, as after a power cut."""
        if running.task is not None:
            await tasks.end([running.task])

    async def close(self) -> None:
        await tasks.end(running.task for running in self.devices.values() if running.task is not None)
        await self.runtime.close()
        for running in self.devices.values():
            running.client.store.close()


async def _live(running: RunningDevice) -> None:
    client = running.client
    # A revoked device ends, as `restante-agent device` does.
    with suppress(Forbidden, SessionEnded):
        with suppress(RestanteError):
            await client.report({"type": "agent.started", "agent_version": running.device.app_version})
        while True:
            try:
                async for signal in client.updates():
                    await handle(running, signal)
            except Unreachable:
                # The signal was not handled to its end: the server delivers it again.
                await asyncio.sleep(RETRY_SECONDS)


async def handle(running: RunningDevice, signal: Signal) -> None:
    client = running.client
    if signal.type == "install.updated":
        await _apply(running, await client.install_config())
    elif signal.type == "ca.assigned":
        bundle = await client.authority_bundle(signal.ref["ca_id"])
        await client.report({"type": "ca.imported", "ca_id": bundle.id})
    elif signal.type == "cert.wrap_ready":
        opened = await client.certificate_bundle(signal.ref["cert_id"])
        await client.report({"type": "cert.installed", "cert_id": signal.ref["cert_id"], "domain": opened.domain_name})


async def _apply(running: RunningDevice, config: InstallConfig | None) -> None:
    """What a device does with its config: it takes a moment, and it reports the result."""
    if config is None:
        return
    await asyncio.sleep(running.random.uniform(*APPLY_SECONDS))
    items = {item.id for item in config.installs}
    if running.device.has_old_reader and READER_ITEM in items:
        report = {"type": "install.failed", "version": config.version, "error": READER_ERROR}
    else:
        report = {"type": "install.applied", "version": config.version}
    await running.client.report({**report, "agent_version": running.device.app_version})
