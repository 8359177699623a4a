"""The reference clients in shell against a real server, and their canonical JSON against the published vectors."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from restante_client.testing import USER_EMAIL, USER_PASSWORD, LocalServer

from tests.faults.server_process import REPOSITORY, TIMEOUT_SECONDS

pytestmark = pytest.mark.slow

SHELL = REPOSITORY / "client" / "examples" / "shell"
ADMIN = "/api/edge/v1/admin"
# jq writes this character as an escape, Python's json as it is.
DELETE = "\x7f"


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer("--enable-command-signature", "--command-lease-duration-sec", "2") as server:
        yield server


@pytest.fixture
def operator(server: LocalServer) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=30) as client:
        yield client


@contextmanager
def running(name: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """A script in a process group of its own; the group is killed at the end, or when the test takes too long."""
    process = subprocess.Popen(
        [str(SHELL / name), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def kill() -> None:
        if process.poll() is None:
            os.killpg(process.pid, 9)

    time_limit = threading.Timer(2 * TIMEOUT_SECONDS, kill)
    time_limit.start()
    with process:
        try:
            yield process
        finally:
            time_limit.cancel()
            kill()


def check_running(process: "subprocess.Popen[str]") -> None:
    """Called while a test waits for an effect of the script."""
    assert process.poll() is None, "the script has ended"
    time.sleep(0.02)


def line_of(stream: Any) -> str:
    return str(stream.readline())


def created(operator: httpx.Client, path: str, **body: Any) -> Any:
    response = operator.post(path, json=body)
    assert response.status_code < 300, response.text
    return response.json()


def test_device_enrols_and_prints_signals_again_after_its_cursor(server: LocalServer, tmp_path: Path) -> None:
    with httpx.Client(base_url=server.url, headers={"Origin": server.url}, timeout=30) as person:
        created(person, "/auth/general", action="login", email=USER_EMAIL, password=USER_PASSWORD)
        devices = f"/apiv1/users/{server.user_id}/devices"
        arguments = (server.url, str(tmp_path / "state"))
        with running("device.sh", *arguments) as process:
            code = line_of(process.stderr).split()[-1]
            created(person, "/auth/device", action="device_verify", user_code=code, approve=True)
            while not (found := person.get(devices).json()["data"]):
                check_running(process)
            signals = f"{devices}/{found[0]['id']}/signals"
            created(person, signals, type="shop.price", ref={"number": 1})
            assert json.loads(line_of(process.stdout))["ref"] == {"number": 1}
            created(person, signals, type="shop.price", ref={"number": 2})
            assert json.loads(line_of(process.stdout))["ref"] == {"number": 2}
        # A wrong token is refreshed; the cursor is on disk.
        (tmp_path / "state" / "authorization").write_text("Authorization: Bearer wrong\n")
        with running("device.sh", *arguments) as process:
            created(person, signals, type="shop.price", ref={"number": 3})
            number = 0
            while number != 3:
                number = json.loads(line_of(process.stdout))["ref"]["number"]
                assert number in (2, 3), "only the last signal before the kill may come again"


def test_collector_executes_once_and_acknowledges(server: LocalServer, operator: httpx.Client, tmp_path: Path) -> None:
    site = created(operator, f"{ADMIN}/sites", name="site")["id"]
    miner = created(operator, f"{ADMIN}/miners", site_id=site, name="miner")["id"]
    made = created(operator, f"{ADMIN}/devices", site_id=site, device_name="collector")
    (tmp_path / "token").write_text(made["token"])
    (tmp_path / "secret").write_text(made["hmac_secret"])
    handler = tmp_path / "handler"
    handler.write_text(f"#!/bin/sh\njq -c .params >> {tmp_path}/done\necho carried out\n")
    handler.chmod(0o700)

    def send(speed: int) -> str:
        params = {"speed": speed, "reason": 'Überhitzung "95 °C" / 🔥'}
        body = {"site_id": site, "miner_id": miner, "command_type": "SET_FAN", "params": params}
        return str(created(operator, f"{ADMIN}/commands", **body)["command_id"])

    def wait_until_final(command_id: str) -> Any:
        while (found := operator.get(f"{ADMIN}/commands/{command_id}").json())["status"] not in ("succeeded", "failed"):
            check_running(process)
        return found

    with running("collector.sh", server.url, str(tmp_path), str(handler)) as process:
        for speed in (40, 50):
            found = wait_until_final(send(speed))
            assert (found["status"], found["result_message"]) == ("succeeded", "carried out")
    assert [json.loads(line)["speed"] for line in (tmp_path / "done").read_text().splitlines()] == [40, 50]
    # The program ended during an execution: the command is not executed again.
    command_id = send(60)
    (tmp_path / "executed" / command_id).touch()
    with running("collector.sh", server.url, str(tmp_path), str(handler)) as process:
        assert wait_until_final(command_id)["result_code"] == "OUTCOME_UNKNOWN"
    # A wrong secret: nothing is executed.
    (tmp_path / "secret").write_text("00" * 32)
    command_id = send(70)
    with running("collector.sh", server.url, str(tmp_path), str(handler)) as process:
        while operator.get(f"{ADMIN}/commands/{command_id}").json().get("result_code") != "SIGNATURE_INVALID":
            check_running(process)
    assert len((tmp_path / "done").read_text().splitlines()) == 2


@pytest.mark.parametrize("alg", ["PS256", "RS256"])
def test_receiver_verifies_stores_and_acknowledges(
    server: LocalServer, operator: httpx.Client, tmp_path: Path, alg: str
) -> None:
    method = "client_secret_basic"
    made = created(operator, "/admin/clients", name="s", token_endpoint_auth_method=method, set_signing_alg=alg)
    client = made["client_id"]
    (tmp_path / "secret").write_text(made["client_secret"])

    def publish(number: int) -> str:
        body = {"client_id": client, "sub": f"https://bank.example/{number}", "events": {"urn:x:y": {"n": number}}}
        return str(created(operator, "/admin/events", **body)["jti"])

    with running("receiver.sh", server.url, client, str(tmp_path)) as process:
        sent = [publish(1), publish(2)]
        assert [json.loads(line_of(process.stdout))["jti"] for _ in sent] == sent
        third = publish(3)
        assert json.loads(line_of(process.stdout))["jti"] == third
        # It is acknowledged with the next poll.
        while not (tmp_path / "events" / f"{third}.acknowledged").exists():
            check_running(process)


def test_canonical_json_and_hmac_of_the_shell_are_those_of_the_vectors(tmp_path: Path) -> None:
    vectors = json.loads((REPOSITORY / "vectors" / "command-signatures.json").read_text())["vectors"]
    usable = [vector for vector in vectors if DELETE not in vector["canonical_json"]]
    assert len(usable) == len(vectors) - 1
    script = (SHELL / "collector.sh").read_text()
    functions = script[script.index("signed=") : script.index("acknowledge()")]
    (tmp_path / "check.sh").write_text(
        "set -euo pipefail\n"
        + functions
        + "while IFS=$'\\t' read -r secret command; do printf %s \"$secret\" > secret\n"
        'jq -cjS "$signed" <<< "$command" | hmac; done < cases\n'
    )
    cases = [f"{vector['secret']}\t{json.dumps(vector['command'])}" for vector in usable]
    (tmp_path / "cases").write_text("\n".join(cases) + "\n")
    done = subprocess.run(["bash", "check.sh"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [vector["signature"] for vector in usable]
