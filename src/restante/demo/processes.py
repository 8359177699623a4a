"""The programs that the demo starts: each is ended by its process id, and ends itself if this process is killed.

    start ─▶ running ── ends by itself ──▶ reported
                │ stop: SIGTERM, after some seconds SIGKILL to its process group
                ▼
              ended

Each program has a session of its own, so Ctrl-C in the terminal reaches this process only, which then ends the others.
"""

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS = 8.0
LOG_LINES = 10
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

SERVER = ("-m", "restante")
AGENT = ("-m", "restante_client.agent.main")
MINERS = ("-m", "restante_client.agent.collector.simulated")

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Program:
    name: str
    process: asyncio.subprocess.Process
    log: Path


class Programs:
    def __init__(self, logs: Path, report: Report) -> None:
        self._logs = logs
        self._report = report
        self._programs: list[Program] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._is_stopping = False
        # Is set when a program that the others need has ended.
        self.essential_ended = asyncio.Event()

    @property
    def running(self) -> list[Program]:
        return [program for program in self._programs if program.process.returncode is None]

    async def start(
        self, name: str, module: Sequence[str], arguments: Sequence[str], *, essential: bool = False
    ) -> Program:
        """Start a program of this package or of the client's, with this Python. Its output goes to a file."""
        program = await self.run(name, module, arguments)
        self._watchers.append(asyncio.create_task(self._watch(program, essential)))
        return program

    async def run(
        self, name: str, module: Sequence[str], arguments: Sequence[str], *, stdin: bytes | None = None
    ) -> Program:
        """Start a program that ends when its work is done. The caller waits for it."""
        path = self._logs / f"{name.replace(' ', '-')}.log"
        # The program has the file open as long as it runs.
        with path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *module,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with(os.getpid()),
                env=_environment(),
            )
        program = Program(name, process, path)
        self._programs.append(program)
        if process.stdin is not None:
            process.stdin.write(stdin or b"")
            process.stdin.close()
        return program

    async def _watch(self, program: Program, essential: bool) -> None:
        code = await program.process.wait()
        if not self._is_stopping:
            how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
            self._report(f"{program.name} has ended by itself ({how}). The end of its log {program.log}:")
            for line in program.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]:
                self._report(f"  {line}")
            if essential:
                self.essential_ended.set()

    async def stop(self) -> None:
        """End every program, and wait until none is left."""
        self._is_stopping = True
        for program in self.running:
            _send(program, signal.SIGTERM)
        waits = [asyncio.create_task(program.process.wait()) for program in self._programs]
        if waits:
            await asyncio.wait(waits, timeout=STOP_SECONDS)
        for program in self.running:
            self._report(f"{program.name} does not end; it is killed")
            _send(program, signal.SIGKILL)
        await asyncio.gather(*waits)
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)


def _send(program: Program, number: signal.Signals) -> None:
    """To the program alone, which ends its own children; SIGKILL to them, too: they are in its process group."""
    with suppress(ProcessLookupError):
        if number is signal.SIGKILL:
            os.killpg(program.process.pid, number)
        else:
            program.process.send_signal(number)


def _end_with(parent: int) -> Callable[[], None]:
    """Runs in the new process: the kernel ends it by SIGTERM when this process ends, however that happens."""

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _environment() -> dict[str, str]:
    """Without settings of a server, or of a command line, of the person who runs the demo."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_") and name != "REDIS_URL"
    }
