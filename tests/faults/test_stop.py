"""How a server ends, and what it says when it cannot begin."""

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
from tests.faults.client import Reply
from tests.faults.server_process import (
    PATIENCE_SECONDS,
    PROGRAM,
    Finished,
    ServerProcess,
    environment,
    free_port,
    prepare,
    run_command,
    running,
)
from tests.faults.site import Site, site

pytestmark = pytest.mark.slow

STOPPED_WITHIN_SECONDS = 2.0
# The machine may be busy with other tests: the promise is measured with that much allowance.
ALLOWANCE_SECONDS = 2.0


def stop_and_measure(server: ServerProcess, number: signal.Signals = signal.SIGTERM) -> float:
    """Stop the server, which must count that as a success; how long it took."""
    started = time.monotonic()
    server.tell(number)
    assert server.wait_for_exit() == 0, server.log_text()[-2000:]
    return time.monotonic() - started


def is_in_time(seconds: float) -> bool:
    return seconds < STOPPED_WITHIN_SECONDS + ALLOWANCE_SECONDS


def is_idle_answer(reply: Reply) -> bool:
    return reply.status == 204 and reply.headers["ETag"] == "0-0" and "X-Poll-Interval" in reply.headers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_parked_polls_are_answered_when_the_server_stops(tmp_path: Path, number: signal.Signals) -> None:
    with site(tmp_path) as running_site:
        polls = [running_site.park(running_site.add_device(), fast=fast) for fast in (True, True, False, False)]
        assert running_site.server.metric("restante_fast_lane_requests_total") == 2
        seconds = stop_and_measure(running_site.server, number)
        assert all(is_idle_answer(poll.result(PATIENCE_SECONDS)) for poll in polls)
        assert is_in_time(seconds)
        assert "Traceback" not in running_site.server.log_text()


@contextmanager
def nobody_else_writing(data: Path) -> Iterator[sqlite3.Connection]:
    """Holds the database's write lock: what the server is asked to write waits."""
    with closing(sqlite3.connect(DataFolder(data).database_path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


def begin_put(running_site: Site, device_path: str) -> socket.socket:
    """Send a PUT whose write has to wait, and return when the server has it."""
    body = json.dumps({"installs": [{"id": "a", "type": "exec", "cmd": "true"}]})
    sock = socket.create_connection(("127.0.0.1", running_site.server.port), timeout=PATIENCE_SECONDS)
    sock.sendall(
        f"PUT {device_path}/install-config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {running_site.prepared.key}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    # What was sent before this was answered was read before it, too.
    assert running_site.operator.ask("GET", "/healthz").status == 200
    return sock


@pytest.mark.parametrize("times", [1, 2])
def test_a_write_under_way_is_finished_and_answered(tmp_path: Path, times: int) -> None:
    """Also when the signal comes a second time, as an impatient supervisor sends it."""
    with site(tmp_path) as running_site:
        device = running_site.add_device()
        poll = running_site.park(device)
        with nobody_else_writing(running_site.data) as other:
            put = begin_put(running_site, running_site.device_path(device))
            for _ in range(times):
                running_site.server.tell(signal.SIGTERM)
            assert is_idle_answer(poll.result(STOPPED_WITHIN_SECONDS + ALLOWANCE_SECONDS))
            other.execute("ROLLBACK")
        with put:
            assert put.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert running_site.server.wait_for_exit() == 0
        running_site.server.start()
        running_site.server.wait_until_ready()
        assert [ref["version"] for ref in running_site.refs_of(device)] == [1]


def test_a_stopped_server_leaves_nothing_behind_for_the_next(tmp_path: Path) -> None:
    with site(tmp_path) as running_site:
        device = running_site.add_device()
        assert running_site.send(device, number=1).status == 202
        stop_and_measure(running_site.server)
        assert DataFolder(running_site.data).running_pid() is None
        running_site.server.start()
        running_site.server.wait_until_ready()
        assert running_site.refs_of(device) == [{"number": 1}]


def test_a_second_server_is_refused_and_the_first_unharmed(tmp_path: Path) -> None:
    with site(tmp_path) as running_site:
        device = running_site.add_device()
        poll = running_site.park(device)
        second = run_command(running_site.data, "serve", "--listen", f"127.0.0.1:{free_port()}")
        assert_one_line(second, f"process {running_site.server.pid}")
        assert "already runs" in second.complaint
        running_site.send(device, number=1)
        assert poll.result(PATIENCE_SECONDS).status == 200


def test_a_killed_server_does_not_stand_in_the_way(tmp_path: Path) -> None:
    with site(tmp_path) as running_site:
        running_site.server.kill()
        assert DataFolder(running_site.data).lock_path.read_text().strip() == str(running_site.server.pid)
        running_site.server.start()
        running_site.server.wait_until_ready()
        assert DataFolder(running_site.data).running_pid() == running_site.server.pid


def test_a_port_in_use_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert_one_line(run_command(tmp_path / "data", "serve", "--listen", address), address)
    assert DataFolder(tmp_path / "data").running_pid() is None


def test_a_data_folder_that_cannot_be_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert_one_line(serve_in(tmp_path / "file" / "data"), "file")


def test_a_data_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    prepared = prepare(tmp_path / "data")
    assert_one_line(serve_read_only(prepared.data), str(prepared.data))


def test_a_new_data_folder_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert_one_line(serve_read_only(tmp_path / "data"), str(tmp_path / "data"))


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    prepared = prepare(tmp_path / "data")
    with closing(sqlite3.connect(DataFolder(prepared.data).database_path)) as other, other:
        other.execute("INSERT INTO schema_migrations (number, name, applied_at) VALUES (9999, 'later', 0)")
    assert_one_line(serve_in(prepared.data), "newer version")


def test_a_file_that_is_no_database_is_told_in_one_line(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    folder.create()
    folder.database_path.write_bytes(b"this is not a database" * 1000)
    assert_one_line(serve_in(folder.path), "not a database")
    assert folder.database_path.read_bytes().startswith(b"this is not a database")


def test_the_server_that_was_refused_can_start_when_the_reason_is_gone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert run_command(data, "serve", "--listen", f"127.0.0.1:{taken.getsockname()[1]}").code == 1
    with running(data) as server:
        assert is_in_time(stop_and_measure(server))


def serve_in(data: Path) -> Finished:
    return run_command(data, "serve", "--listen", f"127.0.0.1:{free_port()}")


def serve_read_only(data: Path) -> Finished:
    """A server whose data folder is read-only. Permissions do not bind root, a mount of its own does."""
    command = [PROGRAM, "serve", "--data", str(data), "--listen", f"127.0.0.1:{free_port()}"]
    if os.geteuid() == 0:
        if shutil.which("unshare") is None:
            pytest.skip("root needs unshare for a folder it cannot write")
        mounting = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
        command = ["unshare", "-m", "sh", "-c", mounting, str(data), *command]
    else:
        data.chmod(0o500)
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=PATIENCE_SECONDS, check=False
    )
    if "unshare failed" in done.stderr or done.stderr.startswith("mount:"):
        pytest.skip(f"no mounts here: {done.stderr}")
    return Finished(done.returncode, done.stdout, done.stderr)


def assert_one_line(finished: Finished, named: str) -> None:
    """The command failed as expected and said why, in one line that names what it is about."""
    assert finished.code == 1, finished
    assert finished.complaint.startswith("restante: "), finished
    assert finished.complaint.count("\n") == 1, finished
    assert named in finished.complaint, finished
