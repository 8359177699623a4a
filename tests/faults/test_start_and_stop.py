"""How a server stops, and what it reports when it cannot start."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from restante.server.data_folder import DataFolder
from tests.faults.client import Response
from tests.faults.device_server import DeviceServer, running_device_server
from tests.faults.server_process import (
    PROGRAM,
    TIMEOUT_SECONDS,
    CommandResult,
    ServerProcess,
    environment,
    free_port,
    prepare_data,
    run_command,
    running_server,
)

pytestmark = pytest.mark.slow

STOPPED_WITHIN_SECONDS = 2.0
# Allowance for a machine that is busy with other tests.
ALLOWANCE_SECONDS = 2.0


def stop_and_measure(server: ServerProcess, number: signal.Signals = signal.SIGTERM) -> float:
    """Stop the server, which must exit with code 0; returns how long it took."""
    started = time.monotonic()
    server.send_signal(number)
    assert server.wait_for_exit() == 0, server.log_text()[-2000:]
    return time.monotonic() - started


def is_in_time(seconds: float) -> bool:
    return seconds < STOPPED_WITHIN_SECONDS + ALLOWANCE_SECONDS


def is_idle_response(response: Response) -> bool:
    return response.status == 204 and response.headers["ETag"] == "0-0" and "X-Poll-Interval" in response.headers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_parked_polls_are_answered_when_the_server_stops(tmp_path: Path, number: signal.Signals) -> None:
    with running_device_server(tmp_path) as server:
        polls = [server.park(server.add_device(), fast_lane=fast_lane) for fast_lane in (True, True, False, False)]
        # The first poll of each device, and two of those that wait.
        assert server.process.metric("restante_fast_lane_requests_total") == 6
        seconds = stop_and_measure(server.process, number)
        assert all(is_idle_response(poll.result(TIMEOUT_SECONDS)) for poll in polls)
        assert is_in_time(seconds)
        assert "Traceback" not in server.process.log_text()


@contextmanager
def write_lock(data: Path) -> Iterator[sqlite3.Connection]:
    """Hold the database's write lock, so that the server's writes wait."""
    with closing(sqlite3.connect(DataFolder(data).database_path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def begin_put(server: DeviceServer, device_path: str) -> socket.socket:
    """Send a PUT whose write has to wait; the server has received it when this returns."""
    body = json.dumps({"installs": [{"id": "a", "type": "exec", "cmd": "true"}]})
    sock = socket.create_connection(("127.0.0.1", server.process.port), timeout=TIMEOUT_SECONDS)
    sock.sendall(
        f"PUT {device_path}/install-config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {server.prepared.key}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    # The server has answered this later request, so it has received the PUT.
    assert server.operator.request("GET", "/healthz").status == 200
    return sock


@pytest.mark.parametrize("times", [1, 2])
def test_write_in_progress_is_finished_and_answered(tmp_path: Path, times: int) -> None:
    """Also when the signal comes twice, as from an impatient supervisor."""
    with running_device_server(tmp_path) as server:
        device = server.add_device()
        poll = server.park(device)
        with write_lock(server.data) as other:
            put = begin_put(server, server.device_path(device))
            for _ in range(times):
                server.process.send_signal(signal.SIGTERM)
            assert is_idle_response(poll.result(STOPPED_WITHIN_SECONDS + ALLOWANCE_SECONDS))
            other.execute("ROLLBACK")
        with put:
            assert put.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait_for_exit() == 0
        server.process.start()
        server.process.wait_until_ready()
        assert [ref["version"] for ref in server.refs_of(device)] == [1]


def test_stopped_server_can_be_started_again_with_its_data(tmp_path: Path) -> None:
    with running_device_server(tmp_path) as server:
        device = server.add_device()
        assert server.send(device, number=1).status == 202
        stop_and_measure(server.process)
        assert DataFolder(server.data).running_pid() is None
        server.process.start()
        server.process.wait_until_ready()
        assert server.refs_of(device) == [{"number": 1}]


def test_second_server_is_refused_and_the_first_unaffected(tmp_path: Path) -> None:
    with running_device_server(tmp_path) as server:
        device = server.add_device()
        poll = server.park(device)
        second = run_command(server.data, "serve", "--listen", f"127.0.0.1:{free_port()}")
        assert_one_line(second, f"process {server.process.pid}")
        assert "already runs" in second.error
        server.send(device, number=1)
        assert poll.result(TIMEOUT_SECONDS).status == 200


def test_server_starts_after_a_kill_despite_the_old_lock_file(tmp_path: Path) -> None:
    with running_device_server(tmp_path) as server:
        server.process.kill()
        assert DataFolder(server.data).lock_path.read_text().strip() == str(server.process.pid)
        server.process.start()
        server.process.wait_until_ready()
        assert DataFolder(server.data).running_pid() == server.process.pid


def test_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        assert_one_line(run_command(tmp_path / "data", "serve", "--listen", address), address)
    assert DataFolder(tmp_path / "data").running_pid() is None


def test_impossible_data_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert_one_line(serve_in(tmp_path / "file" / "data"), "file")


def test_read_only_data_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    prepared = prepare_data(tmp_path / "data")
    assert_one_line(serve_read_only(prepared.data), str(prepared.data))


def test_new_read_only_data_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert_one_line(serve_read_only(tmp_path / "data"), str(tmp_path / "data"))


def test_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    prepared = prepare_data(tmp_path / "data")
    with closing(sqlite3.connect(DataFolder(prepared.data).database_path)) as other, other:
        other.execute("INSERT INTO schema_migrations (number, name, applied_at) VALUES (9999, 'later', 0)")
    assert_one_line(serve_in(prepared.data), "newer version")


def test_file_that_is_no_database_is_reported_in_one_line(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.create()
    folder.database_path.write_bytes(b"this is not a database" * 1000)
    assert_one_line(serve_in(folder.path), "not a database")
    assert folder.database_path.read_bytes().startswith(b"this is not a database")


def test_refused_server_can_start_when_the_reason_is_gone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert run_command(data, "serve", "--listen", f"127.0.0.1:{listening.getsockname()[1]}").code == 1
    with running_server(data) as server:
        assert is_in_time(stop_and_measure(server))


def serve_in(data: Path) -> CommandResult:
    return run_command(data, "serve", "--listen", f"127.0.0.1:{free_port()}")


def serve_read_only(data: Path) -> CommandResult:
    """Run a server whose data folder is read-only. Root ignores permissions, so it gets a read-only mount."""
    command = [PROGRAM, "serve", "--data", str(data), "--listen", f"127.0.0.1:{free_port()}"]
    if os.geteuid() == 0:
        if shutil.which("unshare") is None:
            pytest.skip("root needs unshare for a folder it cannot write")
        mounting = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        command = ["unshare", "-m", "sh", "-c", mounting, str(data), *command]
    else:
        data.chmod(0o500)
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=TIMEOUT_SECONDS, check=False
    )
    if "unshare failed" in done.stderr or done.stderr.startswith("mount:"):
        pytest.skip(f"no mounts here: {done.stderr}")
    return CommandResult(done.returncode, done.stdout, done.stderr)


def assert_one_line(result: CommandResult, named: str) -> None:
    """The command failed and reported one line that contains `named`."""
    assert result.code == 1, result
    assert result.error.startswith("restante: "), result
    assert result.error.count("\n") == 1, result
    assert named in result.error, result
