"""Runs the receiver of `receiver_program` as a process of its own, and reads what it wrote down."""

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
PATIENCE_SECONDS = 30.0


class ReceiverProcess:
    def __init__(self, port: int, record: Path) -> None:
        self.port = port
        self._record = record

    def url(self, path: str, host: str = "localhost") -> str:
        return f"https://{host}:{self.port}{path}"

    def asked(self, path: str | None = None) -> list[dict[str, Any]]:
        """Every request so far, or those to the path, in their order."""
        entries = [entry for entry in self._entries() if "first" in entry]
        return [entry for entry in entries if path is None or entry["first"].split(" ")[1] == path]

    def answered(self) -> dict[int, dict[str, Any]]:
        """What moody answers were and when, by the number of the request."""
        return {entry["answers"]: entry for entry in self._entries() if "answers" in entry}

    def calm_down(self) -> None:
        """From now on every mood is good."""
        self._record.with_name(f"{self._record.name}.calm").touch()

    def _entries(self) -> list[dict[str, Any]]:
        text = self._record.read_text() if self._record.exists() else ""
        # A line that is being written has no end yet.
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def bodies(self, path: str) -> list[str]:
        return [entry["body"] for entry in self.asked(path)]


@contextmanager
def receiving(
    tls: TlsFiles, record: Path, *, port: int = 0, certificate: Path | None = None, asks_who: bool = False
) -> Iterator[ReceiverProcess]:
    """A receiver that is ready, and surely gone after the block."""
    shown = certificate or tls.receiver
    authority = str(tls.authority) if asks_who else ""
    command = [sys.executable, str(PROGRAM), str(port), str(shown), authority, str(record)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the receiver did not start"
        yield ReceiverProcess(int(line), record)
    finally:
        process.kill()
        process.wait(PATIENCE_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


def until(is_so: Callable[[], bool], what: str = "it") -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, f"{what} never came to be so"
        time.sleep(0.01)
