"""A running `restante demo` of a test: started, read, and ended by its process id."""

import os
import re
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

from tests.faults.server_process import environment

READY_SECONDS = 180.0
END_SECONDS = 60.0
LAST_LINE = "Ctrl-C ends everything"
# A free process id is reused at the earliest after all others: comparing the start time makes it certain.
Identity = tuple[int, str]


class DemoProcess:
    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        # Temporary files of the demo, to see what is left of them.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "restante", "demo", "--no-browser", "--devices", "32", "--miners", "6", *arguments],
            env={**environment(), "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._has_more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._has_more:
                self.lines.append(line.rstrip("\n"))
                self._has_more.notify_all()
        with self._has_more:
            self._has_more.notify_all()

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for_line(self, part: str) -> None:
        with self._has_more:
            found = self._has_more.wait_for(
                lambda: any(part in line for line in self.lines) or not self._reader.is_alive(), READY_SECONDS
            )
        assert found, self.text
        assert part in self.text, self.text

    def found(self, pattern: str) -> str:
        match = re.search(pattern, self.text)
        assert match, self.text
        return match[0]

    @property
    def url(self) -> str:
        return self.found(r"http://127\.0\.0\.1:\d+(?=/console)")

    @property
    def link(self) -> str:
        return self.found(r"http://\S+/open/\S+")

    def descendants(self) -> list[Identity]:
        """The processes that the demo has started, and those that these have started."""
        parents: dict[int, list[int]] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and (parent := _stat(int(entry.name))) is not None:
                parents.setdefault(int(parent[1]), []).append(int(entry.name))
        found, pending = [], [self.process.pid]
        while pending:
            children = parents.get(pending.pop(), [])
            pending += children
            found += children
        return [identity for pid in found if (identity := identity_of(pid)) is not None]

    @contextmanager
    def sign_in(self, email: str) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.url, timeout=30) as client:
            self._sign_in(client, email)
            yield client

    def _sign_in(self, client: httpx.Client, email: str) -> None:
        password = self.found(r"(?<=password )\S+(?=:)")
        signed_in = client.post("/auth/general", json={"action": "login", "email": email, "password": password})
        assert signed_in.status_code == 200, signed_in.text

    def end(self) -> None:
        """Kill what is left, whatever state the test has ended in."""
        for pid, _ in [*self.descendants(), *([(self.process.pid, "")] if self.process.poll() is None else [])]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(END_SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()


@contextmanager
def running_demo(folder: Path, *arguments: str) -> Iterator[DemoProcess]:
    demo = DemoProcess(folder, *arguments)
    try:
        demo.wait_for_line(LAST_LINE)
        yield demo
    finally:
        demo.end()


def _stat(pid: int) -> list[str] | None:
    """State, parent and the further fields of /proc/PID/stat, after the name, which may have spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def identity_of(pid: int) -> Identity | None:
    """None: there is no such process, or it has ended and nobody has fetched its exit code."""
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else (pid, fields[19])


def is_running(identity: Identity) -> bool:
    return identity_of(identity[0]) == identity


def eventually(check: Callable[[], Any], seconds: float, what: Callable[[], object] = lambda: "") -> Any:
    """Ask again until the answer is true; fails after so many seconds."""
    end = time.monotonic() + seconds
    while not (result := check()):
        assert time.monotonic() < end, f"not true within {seconds} s: {what()}"
        time.sleep(0.2)
    return result
