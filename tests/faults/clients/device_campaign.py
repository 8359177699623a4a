"""A device: every signal is handled at least once, and in order. Its handler appends numbers to a file."""

import base64
import os
import uuid
from pathlib import Path

from restante_client.device.models import Session
from restante_client.device.store import DeviceStore

from tests.faults.clients.campaign import ClientCampaign, Plan
from tests.faults.server_process import NO_RATE_LIMIT


class DeviceCampaign(ClientCampaign):
    # A short interval makes the device wait inside its polls.
    flags = (*NO_RATE_LIMIT, "--poll-interval-seconds", "1", "--boost-poll-interval-seconds", "1")

    def __init__(self, folder: Path, plan: Plan) -> None:
        super().__init__(folder, plan)
        self._handled_file = folder / "handled"
        self._signals = ""

    def prepare(self) -> list[str]:
        devices = f"/apiv1/users/{self.prepared.user_id}/devices"
        key = base64.b64encode(os.urandom(32)).decode()
        made = self.post(devices, device_public_id=str(uuid.uuid4()), dev_pk=key)["data"]
        store = DeviceStore(self.folder / "state")
        session = made["session"]
        tokens = Session(session["access_token"], session["refresh_token"], session["expires_in"])
        store.save_registration(made["device"]["id"], tokens)
        store.close()
        self._signals = f"{devices}/{made['device']['id']}/signals"
        handler = self.folder / "handlers" / "shop.price"
        handler.parent.mkdir()
        handler.write_text(f"#!/bin/sh\nsed 's/.*\"number\":\\([0-9]*\\).*/\\1/' >> '{self._handled_file}'\n")
        handler.chmod(0o700)
        config = self.folder / "device.toml"
        config.write_text(
            f'server = "{self.url}"\nstate = "{self.folder / "state"}"\n[handlers]\nfolder = "{handler.parent}"\n'
        )
        return ["device", "run", "--config", str(config)]

    def send(self, number: int) -> None:
        self.post(self._signals, type="shop.price", ref={"number": number})

    def handled(self) -> list[int]:
        lines = self._handled_file.read_text().splitlines() if self._handled_file.exists() else []
        return [int(line) for line in lines]

    def done_count(self) -> int:
        return len(set(self.handled()))

    def is_all_done(self) -> bool:
        """The newest signal is handled: because of the order, so are all others that ever will be."""
        return self.sent - 1 in self.handled()

    def summary(self) -> str:
        handled = self.handled()
        return f"{len(set(handled))} signals handled, {len(handled) - len(set(handled))} of them twice"

    def check(self) -> None:
        handled = self.handled()
        for number in sorted(set(range(self.sent)) - set(handled)):
            self.found.add("lost", f"signal {number} was never handled")
        firsts = list(dict.fromkeys(handled))
        if firsts != sorted(firsts):
            self.found.add("out_of_order", str(handled))
        if len(handled) - len(firsts) > self.kills["client"]:
            self.found.add("repeated", f"{handled} with {self.kills['client']} kills of the device")
