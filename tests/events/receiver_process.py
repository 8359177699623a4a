"""Runs `receiver_program` as a separate process, and reads its record of requests."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.events.tls_files import TlsFiles

PROGRAM = Path(__file__).with_name("receiver_program.py")
TIMEOUT_SECONDS = 30.0


class ReceiverProcess:
    def __init__(self, port: int, record: Path) -> None:
        self.port = port
        self._record = record

    def url(self, path: str, host: str = "localhost") -> str:
        return f"https://{host}:{self.port}{path}"

    def requests(self, path: str | None = None) -> list[dict[str, Any]]:
        """Return all requests so far, or those to the path, in order."""
        entries = [entry for entry in self._entries() if "first" in entry]
        return [entry for entry in entries if path is None or entry["first"].split(" ")[1] == path]

    def flaky_responses(self) -> dict[int, dict[str, Any]]:
        """Return the responses of flaky paths, by the number of the request."""
        return {entry["responds_to"]: entry for entry in self._entries() if "responds_to" in entry}

    def stop_failing(self) -> None:
        """Make flaky paths always succeed from now on."""
        self._record.with_name(f"{self._record.name}.stable").touch()

    def _entries(self) -> list[dict[str, Any]]:
        text = self._record.read_text() if self._record.exists() else ""
        # Skip a line that is still being written.
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def bodies(self, path: str) -> list[str]:
        return [entry["body"] for entry in self.requests(path)]


@contextmanager
def receiving(
    tls: TlsFiles,
    record: Path,
    *,
    port: int = 0,
    certificate: Path | None = None,
    requests_client_certificate: bool = False,
) -> Iterator[ReceiverProcess]:
    """Start a receiver and wait until it is ready; kill it at the end of the block."""
    server_certificate = certificate or tls.receiver
    authority = str(tls.authority) if requests_client_certificate else ""
    command = [sys.executable, str(PROGRAM), str(port), str(server_certificate), authority, str(record)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the receiver did not start"
        yield ReceiverProcess(int(line), record)
    finally:
        process.kill()
        process.wait(TIMEOUT_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


def wait_until(condition: Callable[[], bool], description: str = "the condition") -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < end, f"{description} did not become true"
        time.sleep(0.01)
