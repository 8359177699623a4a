"""CLI commands beside a running server: changes take effect without a restart, and neither blocks the other."""

import json
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from restante.cli.database import open_embedded_database
from restante.server.data_folder import DataFolder
from restante.updates.polling import poll_boost
from tests.faults.client import Client, Response
from tests.faults.device_server import DeviceServer, running_device_server
from tests.faults.nodes.cluster import seconds_until
from tests.faults.server_process import TIMEOUT_SECONDS, CommandResult, run_command

pytestmark = pytest.mark.slow

# Without a notification the dispatcher scans the outbox only every five seconds, so this bound proves that it was
# notified. The rest is allowance for a busy machine.
NOTICED_WITHIN_SECONDS = 2.0
COMMANDS_AT_ONCE = 8
SIGNALS_PER_COMMAND = 5
SIGNALS_BY_SERVER = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceServer]:
    """One server for all of these tests."""
    with running_device_server(tmp_path_factory.mktemp("beside")) as server:
        yield server


def run_cli(server: DeviceServer, *args: str, stdin: str = "") -> Any:
    result = run_command(server.data, *args, "--json", stdin=stdin)
    assert result.code == 0, result
    return json.loads(result.output)


@pytest.mark.parametrize("fast_lane", [True, False])
def test_signal_sent_by_cli_wakes_a_parked_poll(server: DeviceServer, fast_lane: bool) -> None:
    device = server.add_device()
    poll = server.park(device, fast_lane=fast_lane)
    run_cli(server, "signal", "send", str(device.id), "app.cli", "--ref", '{"number": 1}')
    sent_at = time.monotonic()
    response = poll.result(TIMEOUT_SECONDS)
    assert time.monotonic() - sent_at < NOTICED_WITHIN_SECONDS
    assert [(each["type"], each["ref"]) for each in response.data["signals"]] == [("app.cli", {"number": 1})]


@pytest.mark.parametrize("fast_lane", [True, False])
def test_cached_token_of_a_revoked_device_is_refused(server: DeviceServer, fast_lane: bool) -> None:
    device = server.add_device()
    client = server.client_of(device)
    assert client.poll("0-0", fast_lane=fast_lane).status == 204
    run_cli(server, "device", "revoke", str(device.id), "--yes")

    assert seconds_until(lambda: client.poll("0-0", fast_lane=fast_lane).status == 403) < NOTICED_WITHIN_SECONDS
    assert client.poll("0-0", fast_lane=fast_lane).body["error"]["code"] == 5022


def test_revocation_leaves_tokens_of_other_devices(server: DeviceServer) -> None:
    device, other = server.add_device(), server.add_device()
    client, others = server.client_of(device), server.client_of(other)
    run_cli(server, "device", "revoke", str(device.id), "--yes")
    seconds_until(lambda: client.poll("0-0").status == 403)
    assert others.poll("0-0").status == 204


def test_added_user_can_sign_in_at_once(server: DeviceServer) -> None:
    login = {"action": "login", "email": "new@example.com", "password": "correct-horse-battery"}
    assert server.operator.request("POST", "/auth/general", login).status == 401
    added = run_cli(
        server, "user", "create", "new@example.com", "--role", "viewer", "--password-stdin", stdin=login["password"]
    )
    assert server.operator.request("POST", "/auth/general", login).data["user"]["id"] == added["id"]


def test_api_key_works_from_creation_until_revocation(server: DeviceServer) -> None:
    created = run_cli(server, "key", "create", "short-lived", "--role", "viewer")
    client = server.client(created["token"])
    path = f"/apiv1/users/{server.prepared.user_id}/devices"
    assert client.request("GET", path).status == 200
    run_cli(server, "key", "revoke", str(created["id"]), "--yes")
    assert client.request("GET", path).status == 401


def test_retried_outbox_row_is_delivered(server: DeviceServer) -> None:
    device = server.add_device()
    row_id = add_failed_row(server, device.id)
    poll = server.park(device)
    assert run_cli(server, "outbox", "retry", str(row_id)) == {"retried": 1}
    retried_at = time.monotonic()
    response = poll.result(TIMEOUT_SECONDS)
    assert time.monotonic() - retried_at < NOTICED_WITHIN_SECONDS
    assert [each["ref"] for each in response.data["signals"]] == [{"retried": True}]
    assert run_cli(server, "outbox", "show", str(row_id))["status"] == "DELIVERED"


def add_failed_row(server: DeviceServer, device_id: int) -> int:
    """Add a row that was given up, as after a long outage of the log."""
    payload = json.dumps({"type": "app.test", "ts_ms": 1_800_000_000_000, "ref": {"retried": True}})
    with closing(sqlite3.connect(DataFolder(server.data).database_path, timeout=TIMEOUT_SECONDS)) as other, other:
        row = other.execute(
            "INSERT INTO device_update_outbox (device_id, event_kind, payload, status, attempts, created_at)"
            " VALUES (?, 'app.test', ?, 'FAILED', 10, 1) RETURNING id",
            (device_id, payload),
        ).fetchone()
    return int(row[0])


def test_poll_boost_started_by_another_process_changes_the_poll_interval(server: DeviceServer) -> None:
    client = server.client_of(server.add_device())

    def interval() -> int:
        return int(client.poll("0-0").headers["X-Poll-Interval"])

    def change(work: Callable[..., object], *args: int) -> None:
        with open_embedded_database(DataFolder(server.data)) as database:
            database.write_now(work, *args)

    ordinary = interval()
    change(poll_boost.start, 600, 7)
    assert seconds_until(lambda: interval() < ordinary // 2) < NOTICED_WITHIN_SECONDS
    change(poll_boost.stop)
    assert seconds_until(lambda: interval() > ordinary // 2) < NOTICED_WITHIN_SECONDS


def test_revocation_is_noticed_while_the_server_writes_continuously(server: DeviceServer) -> None:
    device, busy = server.add_device(), server.add_device()
    client = server.client_of(device)
    stop = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        writers = [threads.submit(send_until, server, busy.id, stop) for _ in range(3)]
        try:
            run_cli(server, "device", "revoke", str(device.id), "--yes")
            assert seconds_until(lambda: client.poll("0-0").status == 403) < NOTICED_WITHIN_SECONDS
        finally:
            stop.set()
        assert sum(writer.result() for writer in writers) > 0


def send_until(server: DeviceServer, device_id: int, stop: threading.Event) -> int:
    """Send signals until stopped; returns how many."""
    path = f"/apiv1/users/{server.prepared.user_id}/devices/{device_id}/signals"
    count = 0
    with closing(Client(server.process.port, server.prepared.key)) as client:
        while not stop.is_set():
            assert client.request("POST", path, {"type": "app.test", "ref": {"number": count}}).status == 202
            count += 1
    return count


def test_concurrent_cli_and_server_writes_lose_nothing(server: DeviceServer) -> None:
    device = server.add_device()
    with ThreadPoolExecutor(COMMANDS_AT_ONCE + 1) as threads:
        by_server = threads.submit(send_many, server, device.id)
        commands = [threads.submit(command_many, server, device.id, number) for number in range(COMMANDS_AT_ONCE)]
        results = [each for command in commands for each in command.result()]
        responses = by_server.result()

    assert [each for each in results if each.code != 0] == []
    assert [response.status for response in responses] == [202] * SIGNALS_BY_SERVER
    expected = {("server", number) for number in range(SIGNALS_BY_SERVER)} | {
        (f"command {command}", number) for command in range(COMMANDS_AT_ONCE) for number in range(SIGNALS_PER_COMMAND)
    }
    seconds_until(lambda: len(server.refs_of(device)) >= len(expected))
    delivered = [(ref["by"], ref["number"]) for ref in server.refs_of(device)]
    assert len(delivered) == len(expected)
    assert set(delivered) == expected
    assert_in_order(delivered)
    assert "locked" not in server.process.log_text()


def send_many(server: DeviceServer, device_id: int) -> list[Response]:
    path = f"/apiv1/users/{server.prepared.user_id}/devices/{device_id}/signals"
    with closing(Client(server.process.port, server.prepared.key)) as client:
        return [
            client.request("POST", path, {"type": "app.test", "ref": {"by": "server", "number": number}})
            for number in range(SIGNALS_BY_SERVER)
        ]


def command_many(server: DeviceServer, device_id: int, command: int) -> list[CommandResult]:
    refs = [json.dumps({"by": f"command {command}", "number": number}) for number in range(SIGNALS_PER_COMMAND)]
    args = ("signal", "send", str(device_id), "app.test", "--ref")
    try:
        return [run_command(server.data, *args, ref) for ref in refs]
    except subprocess.TimeoutExpired as error:
        return [CommandResult(-1, "", repr(error))]


def assert_in_order(delivered: list[tuple[str, int]]) -> None:
    """The signals of each writer are delivered in the order in which it sent them."""
    for writer in {by for by, _ in delivered}:
        numbers = [number for by, number in delivered if by == writer]
        assert numbers == sorted(numbers)
