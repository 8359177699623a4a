"""Commands beside a running server: what they change takes effect without a restart, and nobody is in anybody's way."""

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

from restante.cli.opening import opened_in
from restante.server.data_folder import DataFolder
from restante.updates import rollout
from tests.faults.client import Client, Reply
from tests.faults.server_process import PATIENCE_SECONDS, Finished, run_command
from tests.faults.site import Site, site

pytestmark = pytest.mark.slow

# The dispatcher looks into the outbox unasked only every five seconds, so this is a proof that it was asked; what
# remains of it is allowance for a busy machine.
HEARD_WITHIN_SECONDS = 2.0
COMMANDS_AT_ONCE = 8
SIGNALS_PER_COMMAND = 5
SIGNALS_BY_SERVER = 60


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for all of these tests: none needs it for itself."""
    with site(tmp_path_factory.mktemp("beside")) as running_site:
        yield running_site


def ok(beside: Site, *args: str, stdin: str = "") -> Any:
    finished = run_command(beside.data, *args, "--json", stdin=stdin)
    assert finished.code == 0, finished
    return json.loads(finished.output)


def seconds_until(happens: Callable[[], bool]) -> float:
    started = time.monotonic()
    while not happens():
        assert time.monotonic() - started < PATIENCE_SECONDS, "it does not happen"
        time.sleep(0.02)
    return time.monotonic() - started


@pytest.mark.parametrize("fast", [True, False])
def test_a_sent_signal_wakes_a_parked_poll(beside: Site, fast: bool) -> None:
    device = beside.add_device()
    poll = beside.park(device, fast=fast)
    ok(beside, "signal", "send", str(device.id), "app.cli", "--ref", '{"number": 1}')
    sent_at = time.monotonic()
    reply = poll.result(PATIENCE_SECONDS)
    assert time.monotonic() - sent_at < HEARD_WITHIN_SECONDS
    assert [(each["type"], each["ref"]) for each in reply.data["signals"]] == [("app.cli", {"number": 1})]


@pytest.mark.parametrize("fast", [True, False])
def test_a_revoked_devices_remembered_token_is_refused(beside: Site, fast: bool) -> None:
    device = beside.add_device()
    client = beside.client_of(device)
    assert client.poll("0-0", fast=fast).status == 204
    ok(beside, "device", "revoke", str(device.id))

    assert seconds_until(lambda: client.poll("0-0", fast=fast).status == 403) < HEARD_WITHIN_SECONDS
    assert client.poll("0-0", fast=fast).body["error"]["code"] == 5022


def test_another_devices_token_outlives_a_revocation(beside: Site) -> None:
    device, other = beside.add_device(), beside.add_device()
    client, others = beside.client_of(device), beside.client_of(other)
    ok(beside, "device", "revoke", str(device.id))
    seconds_until(lambda: client.poll("0-0").status == 403)
    assert others.poll("0-0").status == 204


def test_an_added_user_can_sign_in_at_once(beside: Site) -> None:
    login = {"action": "login", "email": "new@example.com", "password": "correct-horse-battery"}
    assert beside.operator.ask("POST", "/auth/general", login).status == 401
    added = ok(
        beside, "user", "add", "new@example.com", "--role", "viewer", "--password-stdin", stdin=login["password"]
    )
    assert beside.operator.ask("POST", "/auth/general", login).data["user"]["id"] == added["id"]


def test_a_key_works_as_soon_as_it_is_made_and_not_after_it_is_revoked(beside: Site) -> None:
    made = ok(beside, "apikey", "create", "short-lived", "--role", "viewer")
    client = beside.client(made["key"])
    path = f"/apiv1/users/{beside.prepared.user_id}/devices"
    assert client.ask("GET", path).status == 200
    ok(beside, "apikey", "revoke", str(made["id"]))
    assert client.ask("GET", path).status == 401


def test_a_retried_row_is_delivered(beside: Site) -> None:
    device = beside.add_device()
    row_id = add_failed_row(beside, device.id)
    poll = beside.park(device)
    assert ok(beside, "outbox", "retry", str(row_id)) == {"retried": 1}
    retried_at = time.monotonic()
    reply = poll.result(PATIENCE_SECONDS)
    assert time.monotonic() - retried_at < HEARD_WITHIN_SECONDS
    assert [each["ref"] for each in reply.data["signals"]] == [{"retried": True}]
    assert ok(beside, "outbox", "show", str(row_id))["status"] == "DELIVERED"


def add_failed_row(beside: Site, device_id: int) -> int:
    """A row that was given up, as an outage of what stands behind the log leaves it."""
    payload = json.dumps({"type": "app.test", "ts_ms": 1_800_000_000_000, "ref": {"retried": True}})
    with closing(sqlite3.connect(DataFolder(beside.data).database_path, timeout=PATIENCE_SECONDS)) as other, other:
        row = other.execute(
            "INSERT INTO device_update_outbox (device_id, event_kind, payload, status, attempts, created_at)"
            " VALUES (?, 'app.test', ?, 'FAILED', 10, 1) RETURNING id",
            (device_id, payload),
        ).fetchone()
    return int(row[0])


def test_a_rollout_started_by_another_process_changes_the_pace(beside: Site) -> None:
    client = beside.client_of(beside.add_device())

    def interval() -> int:
        return int(client.poll("0-0").headers["X-Poll-Interval"])

    def change(work: Callable[..., object], *args: int) -> None:
        with opened_in(DataFolder(beside.data)) as database:
            database.write_now(work, *args)

    ordinary = interval()
    change(rollout.start, 600, 7)
    assert seconds_until(lambda: interval() < ordinary // 2) < HEARD_WITHIN_SECONDS
    change(rollout.stop)
    assert seconds_until(lambda: interval() > ordinary // 2) < HEARD_WITHIN_SECONDS


def test_a_revocation_is_heard_while_the_server_writes_without_a_pause(beside: Site) -> None:
    device, busy = beside.add_device(), beside.add_device()
    client = beside.client_of(device)
    stop = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        writers = [threads.submit(send_until, beside, busy.id, stop) for _ in range(3)]
        try:
            ok(beside, "device", "revoke", str(device.id))
            assert seconds_until(lambda: client.poll("0-0").status == 403) < HEARD_WITHIN_SECONDS
        finally:
            stop.set()
        assert sum(writer.result() for writer in writers) > 0


def send_until(beside: Site, device_id: int, stop: threading.Event) -> int:
    """Signal after signal; how many."""
    path = f"/apiv1/users/{beside.prepared.user_id}/devices/{device_id}/signals"
    count = 0
    with closing(Client(beside.server.port, beside.prepared.key)) as client:
        while not stop.is_set():
            assert client.ask("POST", path, {"type": "app.test", "ref": {"number": count}}).status == 202
            count += 1
    return count


def test_many_commands_and_the_server_writing_at_once_lose_nothing(beside: Site) -> None:
    device = beside.add_device()
    with ThreadPoolExecutor(COMMANDS_AT_ONCE + 1) as threads:
        by_server = threads.submit(send_many, beside, device.id)
        commands = [threads.submit(command_many, beside, device.id, number) for number in range(COMMANDS_AT_ONCE)]
        finished = [each for command in commands for each in command.result()]
        answers = by_server.result()

    assert [each for each in finished if each.code != 0] == []
    assert [reply.status for reply in answers] == [202] * SIGNALS_BY_SERVER
    wanted = {("server", number) for number in range(SIGNALS_BY_SERVER)} | {
        (f"command {command}", number) for command in range(COMMANDS_AT_ONCE) for number in range(SIGNALS_PER_COMMAND)
    }
    seconds_until(lambda: len(beside.refs_of(device)) >= len(wanted))
    told = [(ref["by"], ref["number"]) for ref in beside.refs_of(device)]
    assert len(told) == len(wanted)
    assert set(told) == wanted
    assert_in_order(told)
    assert "locked" not in beside.server.log_text()


def send_many(beside: Site, device_id: int) -> list[Reply]:
    path = f"/apiv1/users/{beside.prepared.user_id}/devices/{device_id}/signals"
    with closing(Client(beside.server.port, beside.prepared.key)) as client:
        return [
            client.ask("POST", path, {"type": "app.test", "ref": {"by": "server", "number": number}})
            for number in range(SIGNALS_BY_SERVER)
        ]


def command_many(beside: Site, device_id: int, command: int) -> list[Finished]:
    refs = [json.dumps({"by": f"command {command}", "number": number}) for number in range(SIGNALS_PER_COMMAND)]
    args = ("signal", "send", str(device_id), "app.test", "--ref")
    try:
        return [run_command(beside.data, *args, ref) for ref in refs]
    except subprocess.TimeoutExpired as error:
        return [Finished(-1, "", repr(error))]


def assert_in_order(told: list[tuple[str, int]]) -> None:
    """What one writer sent one after the other is told in that order."""
    for writer in {by for by, _ in told}:
        numbers = [number for by, number in told if by == writer]
        assert numbers == sorted(numbers)
