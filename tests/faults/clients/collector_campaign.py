"""A collector: every command is executed at most once per attempt, and its result is reported truthfully.

The miners are simulated in this process, which nobody kills, so they know what was executed. Each command sets its own
frequency. A miner never refuses, so no attempt fails and one execution of a command is the most that is right.
"""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from restante_client.agent.collector.simulated import SimulatedMinerServer, inventory_text, simulated_miners

from tests.faults.clients.campaign import ClientCampaign, Plan

ADMIN = "/api/edge/v1/admin"
MINERS = 4
FREQUENCY_MIN = 100
FINAL = ("succeeded", "failed", "expired", "cancelled")


class CollectorCampaign(ClientCampaign):
    flags = (
        *("--enable-command-signature", "--command-lease-duration-sec", "2", "--default-retry-backoff-sec", "1"),
        *("--command-rate-limits", "default=1000000/1"),
    )

    def __init__(self, folder: Path, plan: Plan) -> None:
        super().__init__(folder, plan)
        self._stack = ExitStack()
        self._miners: list[SimulatedMinerServer] = self._stack.enter_context(simulated_miners(MINERS))
        self._ids: list[int] = []
        self._site_id = 0
        self._commands: dict[int, str] = {}
        self._ended: dict[int, Any] = {}

    def prepare(self) -> list[str]:
        self._site_id = self.post(f"{ADMIN}/sites", name="site")["id"]
        for number in range(MINERS):
            self._ids.append(self.post(f"{ADMIN}/miners", site_id=self._site_id, name=f"miner {number}")["id"])
        made = self.post(f"{ADMIN}/devices", site_id=self._site_id, device_name="collector")
        for name, text in {"token": made["token"], "secret": made["hmac_secret"]}.items():
            (self.folder / name).write_text(text)
        (self.folder / "inventory.toml").write_text(inventory_text(self._miners, self._ids[0]))
        config = self.folder / "collector.toml"
        config.write_text(
            f'server = "{self.url}"\nstate = "{self.folder / "state"}"\ninventory = "{self.folder}/inventory.toml"\n'
            f'token_file = "{self.folder}/token"\nsecret_file = "{self.folder}/secret"\n'
            "sample_seconds = 1\ntelemetry_seconds = 1\n"
        )
        return ["collector", "run", "--config", str(config)]

    def send(self, number: int) -> None:
        made = self.post(
            f"{ADMIN}/commands",
            site_id=self._site_id,
            miner_id=self._ids[number % MINERS],
            command_type="SET_FREQUENCY",
            params={"frequency": self._frequency(number)},
            max_retries=50,
        )
        self._commands[number] = made["command_id"]

    def done_count(self) -> int:
        for number, command_id in self._commands.items():
            if number not in self._ended:
                found = self.operator.request("GET", f"{ADMIN}/commands/{command_id}").body
                if found["status"] in FINAL:
                    self._ended[number] = found
        return len(self._ended)

    def check(self) -> None:
        executed = Counter(
            (index, parameter) for index, miner in enumerate(self._miners) for _, parameter in miner.executed()
        )
        for number, found in self._ended.items():
            count = executed[number % MINERS, f"0,freq,{self._frequency(number)}"]
            said = f"command {number}, executed {count} times, attempts {found.get('attempt')}, is {found['status']}"
            if count > 1:
                self.found.add("executed_again", said)
            if found["status"] == "succeeded" and count == 0:
                self.found.add("untruthful", said)
            if found["status"] != "succeeded" and found["result_code"] != "OUTCOME_UNKNOWN":
                self.found.add("failed", f"{said}: {found['result_code']}")

    def summary(self) -> str:
        outcomes = Counter(found["result_code"] for found in self._ended.values() if found["status"] != "succeeded")
        return f"{len(self._ended)} commands ended, all succeeded but {dict(outcomes)}"

    def close(self) -> None:
        self._stack.close()

    @staticmethod
    def _frequency(number: int) -> int:
        return FREQUENCY_MIN + number // MINERS
