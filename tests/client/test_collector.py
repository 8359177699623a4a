"""A collector against a real server: signed commands, lost programs, reports, a killed server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from restante_client import BlockingCollectorClient, CollectorOptions, Command, Result
from restante_client.testing import LocalServer

pytestmark = pytest.mark.slow

ADMIN = "/api/edge/v1/admin"


class Site:
    """A site with one miner and a collector, and its operator."""

    def __init__(self, server: LocalServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.http = httpx.Client(
            base_url=server.url, headers={"Authorization": f"Bearer {server.admin_key}"}, timeout=30
        )
        self.site_id = self.post("sites", name=folder.name)["id"]
        self.miner_id = self.post("miners", site_id=self.site_id, name="miner")["id"]
        made = self.post("devices", site_id=self.site_id, device_name="collector")
        self.token, self.secret = made["token"], made["hmac_secret"]

    def post(self, path: str, **body: Any) -> Any:
        response = self.http.post(f"{ADMIN}/{path}", json=body)
        assert response.status_code < 300, response.text
        return response.json()

    def send(self, command_type: str = "SET_FREQUENCY", **params: Any) -> str:
        created = self.post(
            "commands", site_id=self.site_id, miner_id=self.miner_id, command_type=command_type, params=params
        )
        return str(created["command_id"])

    def command(self, command_id: str) -> Any:
        return self.http.get(f"{ADMIN}/commands/{command_id}").json()

    def collector(self, **options: Any) -> BlockingCollectorClient:
        made = CollectorOptions(secrets=[self.secret], wait_seconds=1, **options)
        return BlockingCollectorClient(self.server.url, self.token, self.folder / "state", made)


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer(
        "--enable-command-signature", "--command-lease-duration-sec", "2", "--default-retry-backoff-sec", "1"
    ) as server:
        yield server


@pytest.fixture
def site(server: LocalServer, tmp_path: Path) -> Iterator[Site]:
    site = Site(server, tmp_path)
    yield site
    site.http.close()


def test_commands_are_verified_executed_and_acknowledged(site: Site) -> None:
    sent = [site.send(frequency=500 + number) for number in range(3)]
    executed: list[Any] = []
    with site.collector(is_signing_acks=True) as collector:

        def execute(command: Command) -> Result:
            executed.append(command.params["frequency"])
            if len(executed) == 3:
                collector.stop()
            return Result(message="done", before={"temp": 80.5}, after={"temp": 60})

        collector.run(execute)
    assert executed == [500, 501, 502]
    assert [site.command(each)["status"] for each in sent] == ["succeeded"] * 3


def test_secret_of_another_collector_executes_nothing(site: Site) -> None:
    command_id = site.send(frequency=500)
    site.secret = "00" * 32
    with site.collector() as collector:
        assert collector.poll() == []
        collector.flush()
    assert site.command(command_id)["status"] == "pending"


def test_killed_program_leaves_an_unknown_outcome(site: Site) -> None:
    """The program ends between the execution and the result: the command is not executed again."""
    command_id = site.send(frequency=500)
    program = (
        "import os, sys; from pathlib import Path\n"
        "from restante_client import BlockingCollectorClient, CollectorOptions\n"
        "options = CollectorOptions(secrets=[sys.argv[3]])\n"
        "collector = BlockingCollectorClient(sys.argv[1], sys.argv[2], Path(sys.argv[4]), options)\n"
        "(command,) = collector.poll(10)\n"
        "collector.carry_out(command, lambda command: os._exit(9))\n"
    )
    arguments = [site.server.url, site.token, site.secret, str(site.folder / "state")]
    assert subprocess.run([sys.executable, "-c", program, *arguments]).returncode == 9
    with site.collector() as collector:
        commands: list[Command] = []
        while not commands:
            commands = collector.poll(10)
        for command in commands:
            collector.carry_out(command, lambda command: pytest.fail("executed again"))
        collector.flush()
    found = site.command(command_id)
    assert (found["status"], found["result_code"]) == ("failed", "OUTCOME_UNKNOWN")


def test_reports_survive_a_killed_server(site: Site) -> None:
    command_id = site.send(frequency=500)
    with site.collector() as collector:
        (command,) = collector.poll(10)
        collector.extend(command, 600)
        site.server.kill()
        collector.carry_out(command, lambda command: Result(message="done"))
        ts = "2026-01-18T10:00:00Z"
        collector.add_telemetry([{"miner_id": site.miner_id, "ts": ts, "temp_max": 71.5}])
        collector.add_safety_events([{"miner_id": site.miner_id, "action": "FAN_FAILURE", "ts": ts}])
        site.server.start()
        assert collector.flush() == 3
    assert site.command(command_id)["status"] == "succeeded"
    events = site.http.get(f"{ADMIN}/safety-events", params={"site_id": site.site_id}).json()["items"]
    assert [event["action"] for event in events] == ["FAN_FAILURE"]


def test_example_prints_commands(site: Site) -> None:
    example = Path(__file__).parents[2] / "client" / "examples" / "collector.py"
    secrets = {"COLLECTOR_TOKEN": site.token, "COLLECTOR_SECRET": site.secret}
    command_id = site.send(frequency=500)
    with subprocess.Popen(
        [sys.executable, str(example), site.server.url, str(site.folder / "state")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **secrets},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"SET_FREQUENCY [{site.miner_id}] {{'frequency': 500}}\n"
        while site.command(command_id)["status"] != "succeeded":
            assert process.poll() is None
        process.kill()
