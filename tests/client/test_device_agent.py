"""The device agent as a process against a real server: enrolment, configs, certificates, authorities, kill -9.

RESTANTE_FAULT_KILLS sets how often the agent is killed; `make test` has time for only a few kills.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from restante_client import BlockingDeviceClient
from restante_client.testing import LocalServer

from tests.client.person import Person, add_account

pytestmark = pytest.mark.slow
TIMEOUT_SECONDS = 60.0
KILLS = int(os.environ.get("RESTANTE_FAULT_KILLS", "4"))
KILLS_OF_AGENT_PER_KILL_OF_SERVER = 4
SIGNALS_PER_KILL = 3


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    every_second = ("--poll-interval-seconds", "1", "--boost-poll-interval-seconds", "1")
    with LocalServer("--poll-rate-per-second", "1000", "--poll-burst", "100000", *every_second) as server:
        yield server


@pytest.fixture(scope="module")
def person(server: LocalServer) -> Iterator[Person]:
    person = Person(server)
    yield person
    person.http.close()


def wait_until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


class Agent:
    """A device agent with its own folders."""

    def __init__(self, folder: Path, server: LocalServer, person: Person) -> None:
        self.folder, self.server, self.person = folder, server, person
        self.out, self.anchors, self.state = folder / "out", folder / "anchors", folder / "state"
        for path in (self.out, self.anchors, self.state / "files"):
            path.mkdir(parents=True)
        self.state.chmod(0o700)
        self.config = folder / "device.toml"
        self.config.write_text(
            f'server = "{server.url}"\nname = "{folder.name}"\nstate = "{self.state}"\n'
            f'[allow]\npaths = ["{self.out}"]\ncommands = ["sh -c **", "touch {self.out}/*"]\n'
            f'[trust]\nfolder = "{self.anchors}"\nupdate_command = ["true"]\n'
        )
        self.path = ""

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}
        argv = [sys.executable, "-m", "restante_client.agent.main", "device", *arguments, "--config", str(self.config)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment, **options)

    def run_once(self) -> int:
        with self.start("run", "--once") as process:
            return process.wait(TIMEOUT_SECONDS)

    def status(self) -> dict[str, Any]:
        with self.start("status", "--json") as process:
            found: dict[str, Any] = json.loads(process.communicate(timeout=TIMEOUT_SECONDS)[0])
            return found

    def put_config(self, *items: dict[str, Any]) -> int:
        version: int = self.person.put(f"{self.path}/install-config", installs=list(items))["version"]
        return version

    def put_file(self, name: str, content: str) -> None:
        (self.state / "files" / name).write_text(content)

    def copy_item(self, name: str) -> dict[str, Any]:
        return {"id": name, "type": "copy", "from": [name], "to": [str(self.out / name)]}

    def last_report(self) -> dict[str, dict[str, Any]]:
        """The events of the last report that the server got, by type."""
        device_id = int(self.path.rsplit("/", 1)[1])
        with closing(sqlite3.connect(self.server.data / "restante.db")) as database:
            query = "SELECT agent_events FROM user_devices WHERE id = ?"
            (text,) = database.execute(query, (device_id,)).fetchone()
        return {event["type"]: event for event in json.loads(text or "[]")}

    def enrol_by_command(self) -> None:
        with self.start("enrol") as process:
            assert process.stdout is not None
            user_code = process.stdout.readline().split()[-1]
            self.person.post("/auth/device", action="device_verify", user_code=user_code, approve=True)
            assert process.wait(TIMEOUT_SECONDS) == 0
        self.path = f"{self.person.base}/devices/{self.status()['device_id']}"

    def enrol(self) -> None:
        """Without the wait of a device that asks before a person has approved it."""
        with BlockingDeviceClient(self.server.url, self.state) as device:
            code = device.start_enrolment()
            self.person.approve(code)
            device.finish_enrolment(code)
            self.path = f"{self.person.base}/devices/{device.store.device_id}"


@pytest.fixture
def agent(tmp_path: Path, server: LocalServer, person: Person) -> Agent:
    return Agent(tmp_path, server, person)


def test_running_agent_installs_renews_trusts_and_distrusts(agent: Agent, person: Person) -> None:
    ca = person.post(f"{person.base}/cas", name="a", algorithm="ECDSA", common_name="a", valid_days=30)
    account = add_account(person, ca["id"])
    made = person.post(
        f"{person.base}/certificates", domain_name="till.example", acct_id=account["id"], action="create"
    )
    issues = f"{person.base}/certificates/{made['id']}/issues"
    person.post(issues, validity_seconds=86_400)
    agent.enrol_by_command()
    certificate, anchor = agent.out / "cert.pem", agent.anchors / f"restante-ca-{ca['id']}.crt"
    with agent.start("run") as process:
        try:
            person.post(f"{agent.path}/cas", ca_id=ca["id"])
            person.post(f"{agent.path}/certificates", cert_id=made["id"])
            item = {"id": "tls", "type": "copy", "ob_type": "cert", "ob_id": made["id"], "from": ["fullchain.pem"]}
            agent.put_config({**item, "to": [str(certificate)], "verify": {"type": "cert_fingerprint"}})
            wait_until(lambda: certificate.exists() and anchor.exists())
            first = x509.load_pem_x509_certificate(certificate.read_bytes())
            first.verify_directly_issued_by(x509.load_pem_x509_certificate(anchor.read_bytes()))
            person.post(issues, validity_seconds=86_400)
            wait_until(lambda: x509.load_pem_x509_certificate(certificate.read_bytes()) != first)
            assert person.http.delete(f"{agent.path}/cas/{ca['id']}").status_code < 300
            wait_until(lambda: not anchor.exists())
            wait_until(lambda: "ca.removed" in agent.last_report())
            assert agent.status()["is_running"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_SECONDS) == 0
        finally:
            process.kill()
    assert person.http.get(agent.path).json()["data"]["agent_version"] == "0.1.0"
    assert agent.status()["applied_version"] == 1


def test_failed_command_rolls_back_and_is_reported(agent: Agent) -> None:
    agent.enrol()
    agent.put_file("site.conf", "good")
    agent.put_config(agent.copy_item("site.conf"))
    assert agent.run_once() == 0
    assert agent.last_report()["install.applied"]["version"] == 1
    agent.put_file("site.conf", "bad")
    agent.put_config(agent.copy_item("site.conf"), {"id": "check", "type": "exec", "cmd": ["sh", "-c", "exit 3"]})
    assert agent.run_once() == 1
    assert (agent.out / "site.conf").read_text() == "good"
    failed = agent.last_report()["install.failed"]
    assert (failed["version"], failed["error"], failed["rolled_back"]) == (2, "check: exit code 3", True)
    agent.put_config({"id": "x", "type": "copy", "from": ["site.conf"], "to": [str(agent.folder / "elsewhere")]})
    assert agent.run_once() == 1
    assert "allow.paths" in agent.last_report()["install.failed"]["error"]
    assert not (agent.folder / "elsewhere").exists()


def test_agent_killed_while_it_applies_ends_the_same(agent: Agent) -> None:
    agent.enrol()
    agent.put_file("site.conf", "new")
    (agent.out / "site.conf").write_text("old")
    started, may_end = agent.folder / "started", agent.folder / "may-end"
    wait = f"touch {started}; while ! test -e {may_end}; do sleep 0.05; done"
    agent.put_config(
        agent.copy_item("site.conf"),
        {"id": "wait", "type": "exec", "cmd": ["sh", "-c", wait], "timeout_ms": 60_000},
        {"id": "last", "type": "exec", "cmd": ["touch", str(agent.out / "done")], "depends_on": ["wait"]},
    )
    with agent.start("run") as process:
        wait_until(started.exists)
        assert (agent.out / "site.conf").read_text() == "new"
        process.kill()
    may_end.touch()
    assert not (agent.out / "done").exists()
    assert agent.run_once() == 0
    assert (agent.out / "site.conf").read_text() == "new"
    assert (agent.out / "done").exists()
    report = agent.last_report()["install.applied"]
    # The run was rolled back first, so the file was changed again.
    assert [step["result"] for step in report["steps"]] == ["done", "done", "done"]


def test_signals_reach_their_handler_in_order_across_kills_of_both_ends(
    agent: Agent, server: LocalServer, person: Person
) -> None:
    agent.enrol()
    heard = agent.folder / "heard"
    heard.touch()
    handler = agent.folder / "handlers" / "shop.price"
    handler.parent.mkdir()
    handler.write_text(f"#!/bin/sh\ncat >> {heard}\n")
    handler.chmod(0o755)
    agent.config.write_text(agent.config.read_text() + f'[handlers]\nfolder = "{handler.parent}"\n')

    def numbers() -> list[int]:
        # The last line may be half written.
        return [json.loads(line)["ref"]["number"] for line in heard.read_text().split("\n")[:-1]]

    def is_heard(number: int) -> bool:
        return number in numbers()

    sent = 0
    for kill in range(KILLS + 1):
        with agent.start("run", stderr=subprocess.DEVNULL) as process:
            try:
                for _ in range(SIGNALS_PER_KILL):
                    person.post(f"{agent.path}/signals", type="shop.price", ref={"number": sent})
                    sent += 1
                # Killed while it handles the first of them, except at the end.
                last = sent - 1 if kill == KILLS else sent - SIGNALS_PER_KILL
                wait_until(partial(is_heard, last))
            finally:
                process.kill()
        if kill % KILLS_OF_AGENT_PER_KILL_OF_SERVER == 1:
            server.kill()
            server.start()
    assert list(dict.fromkeys(numbers())) == list(range(sent))
