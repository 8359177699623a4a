"""The collector and receiver agents as processes, with a real server: away and back, Shared Signals, SIGTERM."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from restante_client.agent.collector.simulated import inventory_text, simulated_miners
from restante_client.testing import LocalServer

pytestmark = pytest.mark.slow

ADMIN = "/api/edge/v1/admin"
AGENT = str(Path(sys.executable).with_name("restante-agent"))
WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer("--enable-command-signature") as server:
        yield server


@pytest.fixture
def operator(server: LocalServer) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {server.admin_key}"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=30) as client:
        yield client


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The agent, which must end with code 0 after SIGTERM."""
    process = subprocess.Popen([AGENT, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    time_limit = threading.Timer(WAIT_SECONDS, process.kill)
    time_limit.start()
    with process:
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_SECONDS) == 0
        finally:
            time_limit.cancel()
            process.kill()


def wait_for(is_there: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := is_there()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found


def created(client: httpx.Client, path: str, **body: Any) -> Any:
    response = client.post(path, json=body)
    assert response.status_code < 300, response.text
    return response.json()


def test_collector_protects_miners_without_the_server_and_reports_later(
    server: LocalServer, operator: httpx.Client, tmp_path: Path
) -> None:
    site = created(operator, f"{ADMIN}/sites", name="site")["id"]
    made = created(operator, f"{ADMIN}/devices", site_id=site, device_name="collector")
    miner = created(operator, f"{ADMIN}/miners", site_id=site, name="miner")["id"]
    fan = {"site_id": site, "miner_id": miner, "command_type": "SET_FAN", "params": {"speed": 77}}
    command_id = created(operator, f"{ADMIN}/commands", **fan)["command_id"]
    server.kill()
    for name, text in {"token": made["token"], "secret": made["hmac_secret"]}.items():
        (tmp_path / name).write_text(text)
    with simulated_miners(1) as miners:
        (tmp_path / "inventory.toml").write_text(inventory_text(miners, miner))
        (tmp_path / "collector.toml").write_text(
            f'server = "{server.url}"\nstate = "{tmp_path}/state"\ninventory = "{tmp_path}/inventory.toml"\n'
            f'token_file = "{tmp_path}/token"\nsecret_file = "{tmp_path}/secret"\nsign_acks = true\n'
            "sample_seconds = 0.2\ntelemetry_seconds = 0.2\n[safety]\nenabled = true\n"
        )
        miners[0].miner.held_temperature = 90
        with running("collector", "run", "--config", str(tmp_path / "collector.toml")):
            wait_for(lambda: not any(miners[0].miner.boards))
            server.start()
            query = {"site_id": site}
            events = wait_for(lambda: operator.get(f"{ADMIN}/safety-events", params=query).json()["items"])
            assert (events[0]["action"], events[0]["temp_max"]) == ("THERMAL_SHUTDOWN", 90.0)
            assert events[0]["miner_known"] is True
            wait_for(lambda: operator.get(f"{ADMIN}/commands/{command_id}").json()["status"] == "succeeded")
            assert miners[0].miner.fan_percent == 77
            (record,) = wait_for(lambda: operator.get(f"{ADMIN}/telemetry", params=query).json()["items"])
            assert "'temp_max': 90.0" in str(record)
        found = json.loads(status_of("collector", tmp_path / "collector.toml"))
        assert (found["is_running"], found["commands_executed"], found["waiting_acks"]) == (False, 1, 0)


def test_receiver_delivers_shared_signals_to_stdout(
    server: LocalServer, operator: httpx.Client, tmp_path: Path
) -> None:
    method, scope = "client_secret_basic", "ssf.read ssf.manage"
    made = created(operator, "/admin/clients", name="hub", token_endpoint_auth_method=method, scope=scope)
    (tmp_path / "secret").write_text(made["client_secret"])
    with httpx.Client(base_url=server.url, timeout=30) as receiver:
        form = {"grant_type": "client_credentials", "scope": scope}
        token = receiver.post("/token", data=form, auth=(made["client_id"], made["client_secret"])).json()
        receiver.headers["Authorization"] = f"Bearer {token['access_token']}"
        stream = created(receiver, "/ssf/streams", delivery={"method": "urn:ietf:rfc:8936"})
        (tmp_path / "receiver.toml").write_text(
            f'server = "{server.url}"\nstate = "{tmp_path}/state"\nclient_id = "{made["client_id"]}"\n'
            f'authentication = "{method}"\nsecret_file = "{tmp_path}/secret"\nscope = "ssf.read"\n'
            f'endpoint = "{stream["delivery"]["endpoint_url"]}"\nissuer = "{stream["iss"]}"\n'
            f"audience = {json.dumps(stream['aud'] if isinstance(stream['aud'], str) else stream['aud'][0])}\n"
        )
        with running("receiver", "run", "--config", str(tmp_path / "receiver.toml")) as process:
            response = receiver.post("/ssf/verify", json={"stream_id": stream["stream_id"], "state": "hello"})
            assert response.status_code == 204, response.text
            assert process.stdout is not None
            event = json.loads(process.stdout.readline())
            (content,) = event["claims"]["events"].values()
            assert content == {"state": "hello"}
    assert json.loads(status_of("receiver", tmp_path / "receiver.toml"))["to_deliver"] == 0


def status_of(program: str, config: Path) -> str:
    arguments = [AGENT, program, "status", "--json", "--config", str(config)]
    return subprocess.run(arguments, capture_output=True, text=True, check=True, env={**os.environ}).stdout
