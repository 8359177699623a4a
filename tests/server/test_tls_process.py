"""The installed program with TLS files, as a process of its own: SIGHUP, and files it cannot start with."""

import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.server_process import PROGRAM, ServerProcess, environment
from tests.pki import Pair, pki
from tests.server.tls_wire import TlsWire

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 60.0
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def put(folder: Path, server: Pair) -> tuple[str, ...]:
    """Copies of the files, which can be changed, and the flags that name them."""
    shutil.copy(server.certificate, folder / "server.crt")
    shutil.copy(server.key, folder / "server.key")
    return ("--tls-certificate", str(folder / "server.crt"), "--tls-key", str(folder / "server.key"))


def until(server: ServerProcess, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert server.process.poll() is None, server.log_path.read_text()
        assert time.monotonic() < end, "it never came to be so"
        time.sleep(0.05)


def answers(server: ServerProcess, trusting: Pair) -> bool:
    try:
        with TlsWire(server.port, trusting=trusting) as wire:
            return wire.ask(HEALTH).status == 200
    except (ssl.SSLError, OSError, EOFError):
        return False


def test_sighup_reads_the_files_again_and_sigterm_still_stops(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", *put(tmp_path, pki().server))
    server.start()
    try:
        until(server, lambda: answers(server, pki().authority))
        assert not answers(server, pki().foreign_authority)
        put(tmp_path, pki().issue("/CN=localhost", by=pki().foreign_authority, names="DNS:localhost"))
        server.process.send_signal(signal.SIGHUP)
        until(server, lambda: answers(server, pki().foreign_authority))
        assert not answers(server, pki().authority)
    finally:
        server.process.terminate()
        assert server.process.wait(PATIENCE_SECONDS) == 0
    assert f"serves https://127.0.0.1:{server.port}" in server.log_path.read_text()


def test_files_that_cannot_be_used_stop_the_start_with_one_line(tmp_path: Path) -> None:
    flags = put(tmp_path, pki().server)
    (tmp_path / "server.key").write_text("nonsense")
    command = [PROGRAM, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *flags]
    tried = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=PATIENCE_SECONDS)
    assert tried.returncode == 1
    assert tried.stderr.startswith("restante: ")
    assert str(tmp_path / "server.key") in tried.stderr
    assert tried.stderr.count("\n") == 1
