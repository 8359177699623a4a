"""The installed program as a separate process, on a real terminal where it prompts."""

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from restante.server.data_folder import DataFolder

pytestmark = pytest.mark.slow

PROGRAM = str(Path(sys.executable).with_name("restante"))
PATIENCE_SECONDS = 20


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}


def run(data: Path, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *args, "--data", str(data)],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_SECONDS,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(data: Path, port: int) -> Iterator["subprocess.Popen[str]"]:
    server = subprocess.Popen(
        [PROGRAM, "serve", "--data", str(data), "--listen", f"127.0.0.1:{port}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    with server:
        try:
            yield server
        finally:
            server.send_signal(signal.SIGTERM)


def test_server_answers_when_its_address_is_printed(tmp_path: Path) -> None:
    with serving(tmp_path / "data", port := free_port()) as server:
        assert server.stdout is not None
        assert f"http://127.0.0.1:{port}" in server.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE_SECONDS) as response:
            assert response.status == 200


def test_commands_run_beside_server(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    with serving(data, port) as server:
        assert server.stdout is not None
        printed = [server.stdout.readline() for _ in range(4)]
        assert f"http://127.0.0.1:{port}" in printed[0]
        assert str(data) in printed[1]
        assert printed[3].endswith(f"restante user create you@example.com --role admin --data {data}\n")
        made = {path.name: path.stat().st_mode & 0o777 for path in data.iterdir()}
        assert set(made.values()) == {0o600}, made
        assert DataFolder(data).running_pid() == server.pid

        added = run(
            data,
            "user",
            "create",
            "a@example.com",
            "--role",
            "admin",
            "--password-stdin",
            "--json",
            stdin="x" * 10,
        )
        person = json.loads(added.stdout)
        assert (person["id"], person["email"], person["role"]) == (1, "a@example.com", "admin")
        key = json.loads(run(data, "key", "create", "x", "--role", "admin", "--json").stdout)["token"]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/apiv1/users/1/devices", headers={"authorization": f"Bearer {key}"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
            assert response.status == 200

        second = run(data, "serve", "--listen", f"127.0.0.1:{free_port()}")
        assert second.returncode == 1
        assert f"process {server.pid}" in second.stderr
        assert "Traceback" not in second.stderr
        assert run(data, "doctor").returncode == 0
    assert DataFolder(data).running_pid() is None


def test_lost_or_foreign_master_key_refuses_start_with_one_line(tmp_path: Path) -> None:
    key = DataFolder(tmp_path / "data").master_key_path
    assert run(key.parent, "init").returncode == 0
    for change in (key.unlink, lambda: key.write_text("ab" * 32)):
        change()
        refused = run(key.parent, "serve", "--listen", f"127.0.0.1:{free_port()}")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("restante: ")
        assert refused.stderr.count("\n") == 1
        assert str(key) in refused.stderr
        key.touch(mode=0o600)
        key.chmod(0o600)


def test_closed_stdout_causes_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [PROGRAM, "settings", "--markdown"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process:
        assert b"Traceback" not in process.stderr.read()


class Terminal:
    """The other end of a terminal that a command runs on."""

    def __init__(self, *command: str) -> None:
        self._fd, slave = pty.openpty()
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment(), start_new_session=True
        )
        os.close(slave)
        self.shown = ""
        self._read = 0

    def type_hidden(self, line: str) -> None:
        """Type after the program switched off the echo, which discards earlier input."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while termios.tcgetattr(self._fd)[3] & termios.ECHO and time.monotonic() < deadline:
            time.sleep(0.01)
        os.write(self._fd, f"{line}\n".encode())

    def read_until(self, expected: str) -> None:
        """Read until the text appears after what was already read."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := self.shown.find(expected, self._read)) < 0:
            ready, _, _ = select.select([self._fd], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{expected!r} did not appear: {self.shown!r}"
            self.shown += os.read(self._fd, 4096).decode()
        self._read = found + len(expected)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._fd)


def test_prompt_asks_for_password_twice_without_echo(tmp_path: Path) -> None:
    command = ("init", "--user", "a@example.com", "--data", str(tmp_path / "data"))
    with closing(Terminal(PROGRAM, *command)) as terminal:
        for again, expected in (
            ("correct house", "do not match"),
            ("correct horse", "Added a@example.com as admin"),
        ):
            terminal.read_until("at least 10 characters):")
            terminal.type_hidden("correct horse")
            terminal.read_until("Again:")
            terminal.type_hidden(again)
            terminal.read_until(expected)
        assert "correct" not in terminal.shown
        assert terminal.process.wait(PATIENCE_SECONDS) == 0


def test_unusable_redis_tls_file_is_refused_before_start(tmp_path: Path) -> None:
    absent = tmp_path / "absent.pem"
    served = run(tmp_path / "data", "serve", "--redis-url", f"rediss://:s3cret@127.0.0.1:1?ssl_ca_certs={absent}")
    assert served.returncode == 1
    assert str(absent) in served.stderr
    assert "s3cret" not in served.stdout + served.stderr
    assert not (tmp_path / "data").exists()
