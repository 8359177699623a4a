"""The supervisor starts workers that serve one socket, and replaces workers that end.

    supervisor ── fork ──▶ worker 1, worker 2, …      each a complete server on the inherited socket
        │ SIGTERM, SIGINT, SIGHUP: passed on to all workers
        └ a worker ended: start another, with a growing delay if workers keep ending early

The supervisor owns the socket: while a worker is down, the others accept its connections. The kernel sends SIGTERM to
the workers when the supervisor is gone, however it ended.

Invariant: the supervisor has no threads and only waits, so that it can fork at any time.
"""

import ctypes
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

import structlog

log = structlog.get_logger()

PR_SET_PDEATHSIG = 1
# A worker that ran for this long did not fail at its start.
LONG_LIFE_SECONDS = 10.0
RESTART_SECONDS = 0.1
RESTART_SECONDS_MAX = 5.0
# Added to the time that the workers themselves take to finish.
END_SECONDS = 10.0

_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}


@dataclass(slots=True)
class _Worker:
    number: int
    pid: int = 0
    started_at: float = 0.0
    # How many times in a row it ended early, and when the next one starts.
    failures: int = 0
    due_at: float = 0.0


class Supervisor:
    def __init__(self, count: int, work: Callable[[int], None], finish_seconds: float) -> None:
        """`work` runs in each worker with its number, from 1 on, and returns after a stop signal."""
        self._workers = [_Worker(number) for number in range(1, count + 1)]
        self._work = work
        self._finish_seconds = finish_seconds
        self._stop_by: float | None = None
        self._is_clean = True

    def run(self) -> int:
        """Run until a stop signal, then until all workers have ended. Return 0 if all of them ended cleanly."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        try:
            while self._stop_by is None or any(worker.pid for worker in self._workers):
                self._start_due()
                received = signal.sigtimedwait(_WATCHED, self._seconds_until_due())
                if received is not None and received.si_signo != signal.SIGCHLD:
                    self._pass_on(signal.Signals(received.si_signo))
                self._reap()
                self._kill_late()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return 0 if self._is_clean else 1

    def _start_due(self) -> None:
        if self._stop_by is not None:
            return
        for worker in self._workers:
            if not worker.pid and worker.due_at <= time.monotonic():
                worker.started_at = time.monotonic()
                worker.pid = self._fork(worker.number)
                log.info("worker started", worker=worker.number, pid=worker.pid)

    def _fork(self, number: int) -> int:
        parent = os.getpid()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pid = os.fork()
        if pid:
            return pid
        # This is the worker now. It must not return into the code of the supervisor.
        code = 1
        try:
            _end_with(parent)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            # A shell starts background jobs with SIGINT ignored. The supervisor passes SIGINT on: it must end a worker.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            self._work(number)
            code = 0
        except KeyboardInterrupt:
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)

    def _pass_on(self, number: signal.Signals) -> None:
        if number != signal.SIGHUP and self._stop_by is None:
            self._stop_by = time.monotonic() + self._finish_seconds + END_SECONDS
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, number)

    def _reap(self) -> None:
        """Collect workers that have ended, and schedule their replacements."""
        for worker in self._workers:
            if not worker.pid or not (status := _ended(worker.pid)):
                continue
            code = os.waitstatus_to_exitcode(status[0])
            worker.pid = 0
            if self._stop_by is not None:
                # A worker that was still starting ends by the signal itself; it had begun nothing.
                self._is_clean = self._is_clean and code in (0, -signal.SIGTERM, -signal.SIGINT)
                continue
            ended_early = time.monotonic() < worker.started_at + LONG_LIFE_SECONDS
            worker.failures = worker.failures + 1 if ended_early else 1
            delay = min(RESTART_SECONDS * 2 ** (worker.failures - 1), RESTART_SECONDS_MAX)
            worker.due_at = time.monotonic() + delay
            log.error("worker ended, starting another", worker=worker.number, exit_code=code, seconds=delay)

    def _kill_late(self) -> None:
        if self._stop_by is not None and time.monotonic() >= self._stop_by:
            self._is_clean = False
            for worker in self._workers:
                if worker.pid:
                    log.error("worker did not stop in time, killing it", worker=worker.number)
                    os.kill(worker.pid, signal.SIGKILL)

    def _seconds_until_due(self) -> float:
        if self._stop_by is not None:
            return max(0.05, self._stop_by - time.monotonic())
        due = [worker.due_at for worker in self._workers if not worker.pid]
        return max(0.0, min(due) - time.monotonic()) if due else 3600.0


def _ended(pid: int) -> tuple[int] | None:
    found, status = os.waitpid(pid, os.WNOHANG)
    return (status,) if found else None


def _end_with(parent: int) -> None:
    """Let the kernel send SIGTERM to this process when its parent ends; stop now if the parent has ended."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
        raise OSError(ctypes.get_errno(), "the worker cannot be bound to its supervisor")
    if os.getppid() != parent:
        raise KeyboardInterrupt
