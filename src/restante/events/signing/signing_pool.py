"""A pool of signing processes, one for each core, started with the first job.

    submit(job) ─▶ queue ─▶ a thread for each process ─▶ pipe ─▶ process ─▶ pipe ─▶ the job's future

A thread keeps two jobs at its process, so that the process never waits for the next one. A process that dies is
replaced, and its jobs run again; a job that kills several processes in a row fails. A process receives each key once,
over its pipe, before the first job that needs it.
"""

import os
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass

import structlog

from restante.events.signing.signing_worker import JobRefused, KeyMessage, SignedTokens, SigningJob, receive_reply, send

log = structlog.get_logger()

JOBS_AHEAD = 2
DEATHS_MAX = 3
COMMAND = (sys.executable, "-P", "-m", "restante.events.signing.signing_worker")


class SigningFailed(Exception):
    """The job could not be signed."""


@dataclass(frozen=True, slots=True)
class _Task:
    job: SigningJob
    key: KeyMessage
    future: "Future[SignedTokens]"


def core_count() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def worker_environment() -> dict[str, str]:
    """Return the environment of signing processes: without settings, because one may be the master key."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}


class SigningPool:
    """Runs signing jobs. Safe to use from any thread. `close` is final and leaves no process behind."""

    def __init__(self, processes: int = 0, command: Sequence[str] = COMMAND) -> None:
        self._size = processes or core_count()
        self._command = command
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[_ProcessThread] = []
        self._is_closed = False

    @property
    def size(self) -> int:
        return self._size

    @property
    def pids(self) -> list[int]:
        """The ids of the running processes."""
        return [thread.pid for thread in self._threads if thread.pid is not None]

    def submit(self, job: SigningJob, key: KeyMessage) -> "Future[SignedTokens]":
        """Queue a job for this key. The future raises SigningFailed if the job fails."""
        future: Future[SignedTokens] = Future()
        with self._lock:
            if self._is_closed:
                future.set_exception(SigningFailed("the server is stopping"))
                return future
            while len(self._threads) < self._size:
                self._threads.append(_ProcessThread(self._tasks, self._command))
            self._tasks.put(_Task(job, key, future))
        return future

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for thread in self._threads:
                thread.stop()
            for _ in self._threads:
                self._tasks.put(None)
        for thread in self._threads:
            thread.join()
        with suppress(queue.Empty):
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    task.future.set_exception(SigningFailed("the server is stopping"))


class _Process:
    """A signing process and the two pipes to it. Raises OSError if it cannot start."""

    def __init__(self, command: Sequence[str]) -> None:
        child_in, parent_out = os.pipe()
        parent_in, child_out = os.pipe()
        try:
            # A new session, so that Ctrl-C in the terminal reaches the server only.
            self._popen = subprocess.Popen(  # noqa: S603 — a fixed command
                command, stdin=child_in, stdout=child_out, env=worker_environment(), start_new_session=True
            )
        except OSError:
            os.close(parent_out)
            os.close(parent_in)
            raise
        finally:
            # Close the child's ends here, or the pipes would stay open after the child dies.
            os.close(child_in)
            os.close(child_out)
        self.pid = self._popen.pid
        self.kill = self._popen.kill
        self.requests = os.fdopen(parent_out, "wb")
        self.replies = os.fdopen(parent_in, "rb")
        self.known_kids: set[str] = set()

    def send_task(self, task: _Task) -> None:
        if task.job.kid in self.known_kids:
            send(self.requests, task.job)
        else:
            self.known_kids.add(task.job.kid)
            send(self.requests, task.key, task.job)

    def end(self) -> None:
        self.kill()
        self._popen.wait()
        self.replies.close()
        # Flushing fails if the process is gone; its unread input does not matter.
        with suppress(OSError):
            self.requests.close()


class _ProcessThread:
    """A thread that feeds one process."""

    def __init__(self, tasks: "queue.SimpleQueue[_Task | None]", command: Sequence[str]) -> None:
        self._tasks = tasks
        self._command = command
        self._process: _Process | None = None
        self._in_process: deque[_Task] = deque()
        self._is_stopping = False
        self._deaths = 0
        self._thread = threading.Thread(target=self._run, name="restante-signing", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        process = self._process
        return None if process is None else process.pid

    def stop(self) -> None:
        self._is_stopping = True
        process = self._process
        if process is not None:
            process.kill()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        while self._fetch_tasks():
            try:
                self._receive()
            except (OSError, EOFError) as error:
                self._handle_death(error)
        self._fail_tasks("the server is stopping")
        self._end_process()

    def _fetch_tasks(self) -> bool:
        """Wait for a task, and fetch a second one if there is one; return False when the pool stops."""
        while len(self._in_process) < JOBS_AHEAD and not self._is_stopping:
            try:
                task = self._tasks.get() if not self._in_process else self._tasks.get_nowait()
            except queue.Empty:
                break
            if task is None:
                return False
            if not task.future.set_running_or_notify_cancel():
                continue
            self._in_process.append(task)
            if self._process is not None:
                # A broken pipe is handled when the reply is read.
                with suppress(OSError):
                    self._process.send_task(task)
        return not self._is_stopping

    def _receive(self) -> None:
        """Start the process if there is none, and receive one reply."""
        if self._process is None:
            self._process = _Process(self._command)
            if self._is_stopping:
                raise EOFError
            for task in self._in_process:
                self._process.send_task(task)
        reply = receive_reply(self._process.replies)
        self._deaths = 0
        future = self._in_process.popleft().future
        if isinstance(reply, JobRefused):
            future.set_exception(SigningFailed(reply.reason))
        else:
            future.set_result(reply)

    def _handle_death(self, error: Exception) -> None:
        """Clean up a dead process. The next round starts another one with the same tasks."""
        self._end_process()
        if self._is_stopping:
            return
        self._deaths += 1
        log.warning("signing process died, starting another", error=repr(error), deaths=self._deaths)
        if self._deaths >= DEATHS_MAX:
            self._deaths = 0
            self._fail_tasks("several signing processes died in a row")

    def _fail_tasks(self, reason: str) -> None:
        while self._in_process:
            self._in_process.popleft().future.set_exception(SigningFailed(reason))

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()
