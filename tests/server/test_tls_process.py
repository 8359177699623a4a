"""The installed program with TLS files as a separate process: SIGHUP, and unusable files at the start."""

import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.server_process import PROGRAM, ServerProcess, environment
from tests.pki import CertificateFiles, pki
from tests.server.tls_connection import TlsConnection

pytestmark = pytest.mark.slow

TIMEOUT_SECONDS = 60.0
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def put(folder: Path, server: CertificateFiles) -> tuple[str, ...]:
    """Copy the files, so that they can be replaced, and return the flags that name them."""
    shutil.copy(server.certificate, folder / "server.crt")
    shutil.copy(server.key, folder / "server.key")
    return ("--tls-certificate", str(folder / "server.crt"), "--tls-key", str(folder / "server.key"))


def wait_until(server: ServerProcess, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert server.process.poll() is None, server.log_path.read_text()
        assert time.monotonic() < end, "the condition never became true"
        time.sleep(0.05)


def is_serving(server: ServerProcess, trusting: CertificateFiles) -> bool:
    try:
        with TlsConnection(server.port, trusting=trusting) as wire:
            return wire.request(HEALTH).status == 200
    except (ssl.SSLError, OSError, EOFError):
        return False


def test_sighup_reloads_files_and_sigterm_still_stops(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", *put(tmp_path, pki().server))
    server.start()
    try:
        wait_until(server, lambda: is_serving(server, pki().authority))
        assert not is_serving(server, pki().foreign_authority)
        put(tmp_path, pki().issue("/CN=localhost", by=pki().foreign_authority, names="DNS:localhost"))
        server.process.send_signal(signal.SIGHUP)
        wait_until(server, lambda: is_serving(server, pki().foreign_authority))
        assert not is_serving(server, pki().authority)
    finally:
        server.process.terminate()
        assert server.process.wait(TIMEOUT_SECONDS) == 0
    assert f"serves https://127.0.0.1:{server.port}" in server.log_path.read_text()


def test_unusable_files_refuse_start_with_one_line(tmp_path: Path) -> None:
    flags = put(tmp_path, pki().server)
    (tmp_path / "server.key").write_text("nonsense")
    command = [PROGRAM, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *flags]
    result = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=TIMEOUT_SECONDS)
    assert result.returncode == 1
    assert result.stderr.startswith("restante: ")
    assert str(tmp_path / "server.key") in result.stderr
    assert result.stderr.count("\n") == 1
