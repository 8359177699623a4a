"""The processes that sign, one for each core, started when there is first something to sign.

    submit(job) ─▶ queue ─▶ a thread for each process ─▶ pipe ─▶ process ─▶ pipe ─▶ the job's future

A thread has two jobs with its process at a time, so that it never waits for the next one. A process that dies is
replaced and its jobs are done again; a job that process after process dies of is given up. Keys go to a process over
its pipe, once, before the first job that needs them.
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
from typing import NamedTuple

import structlog

from restante.events.sign_worker import Job, KeyMessage, Refused, Signed, receive_reply, send

log = structlog.get_logger()

JOBS_AHEAD = 2
DEATHS_MAX = 3
COMMAND = (sys.executable, "-P", "-m", "restante.events.sign_worker")


class SigningFailed(Exception):
    """The job could not be signed."""


class _Task(NamedTuple):
    job: Job
    key: KeyMessage
    future: "Future[Signed]"


def cores() -> int:
    """How many processes can sign at the same time here."""
    return len(os.sched_getaffinity(0))


def environment() -> dict[str, str]:
    """For processes that sign: without our settings, of which the master key may be one."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RESTANTE_")}


class SignPool:
    """Used from any thread. Closed for good by `close`, which leaves no process behind."""

    def __init__(self, processes: int = 0, command: Sequence[str] = COMMAND) -> None:
        self._size = processes or cores()
        self._command = command
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._handlers: list[_Handler] = []
        self._is_closed = False

    @property
    def size(self) -> int:
        return self._size

    @property
    def pids(self) -> list[int]:
        """The processes that run now."""
        return [handler.pid for handler in self._handlers if handler.pid is not None]

    def submit(self, job: Job, key: KeyMessage) -> "Future[Signed]":
        """Sign it with that key. The future raises SigningFailed if it cannot be done."""
        future: Future[Signed] = Future()
        with self._lock:
            if self._is_closed:
                future.set_exception(SigningFailed("the server is stopping"))
                return future
            while len(self._handlers) < self._size:
                self._handlers.append(_Handler(self._tasks, self._command))
            self._tasks.put(_Task(job, key, future))
        return future

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for handler in self._handlers:
                handler.stop()
            for _handler in self._handlers:
                self._tasks.put(None)
        for handler in self._handlers:
            handler.join()
        with suppress(queue.Empty):
            while True:
                task = self._tasks.get_nowait()
                if task is not None:
                    task.future.set_exception(SigningFailed("the server is stopping"))


class _Process:
    """A process that signs, and the two pipes to it; OSError if it cannot be started."""

    def __init__(self, command: Sequence[str]) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        try:
            # A session of its own: a Ctrl-C in the server's terminal is for the server.
            self._running = subprocess.Popen(  # noqa: S603 — our own module, run by our own interpreter
                command, stdin=theirs_in, stdout=theirs_out, env=environment(), start_new_session=True
            )
        except OSError:
            os.close(ours_out)
            os.close(ours_in)
            raise
        finally:
            # Their ends are theirs alone, or nobody would notice that they are gone.
            os.close(theirs_in)
            os.close(theirs_out)
        self.pid = self._running.pid
        self.kill = self._running.kill
        self.requests = os.fdopen(ours_out, "wb")
        self.replies = os.fdopen(ours_in, "rb")
        self.known_kids: set[str] = set()

    def hand_over(self, task: _Task) -> None:
        if task.job.kid in self.known_kids:
            send(self.requests, task.job)
        else:
            self.known_kids.add(task.job.kid)
            send(self.requests, task.key, task.job)

    def end(self) -> None:
        self.kill()
        self._running.wait()
        self.replies.close()
        # What is still to be written has nobody left to read it.
        with suppress(OSError):
            self.requests.close()


class _Handler:
    """A thread and its process."""

    def __init__(self, tasks: "queue.SimpleQueue[_Task | None]", command: Sequence[str]) -> None:
        self._tasks = tasks
        self._command = command
        self._process: _Process | None = None
        self._with_process: deque[_Task] = deque()
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
        while self._take():
            try:
                self._receive()
            except (OSError, EOFError) as error:
                self._bury(error)
        self._give_up("the server is stopping")
        self._end_process()

    def _take(self) -> bool:
        """Wait for a task, and take a second one if it is there; False when it is time to go."""
        while len(self._with_process) < JOBS_AHEAD and not self._is_stopping:
            try:
                task = self._tasks.get() if not self._with_process else self._tasks.get_nowait()
            except queue.Empty:
                break
            if task is None:
                return False
            if not task.future.set_running_or_notify_cancel():
                continue
            self._with_process.append(task)
            if self._process is not None:
                # A pipe that is broken shows when the reply is waited for, too.
                with suppress(OSError):
                    self._process.hand_over(task)
        return not self._is_stopping

    def _receive(self) -> None:
        """One reply, from a process that has all our tasks."""
        if self._process is None:
            self._process = _Process(self._command)
            if self._is_stopping:
                raise EOFError
            for task in self._with_process:
                self._process.hand_over(task)
        reply = receive_reply(self._process.replies)
        self._deaths = 0
        future = self._with_process.popleft().future
        if isinstance(reply, Refused):
            future.set_exception(SigningFailed(reply.reason))
        else:
            future.set_result(reply)

    def _bury(self, error: Exception) -> None:
        """The process is gone: the next round starts another and hands it the same work."""
        self._end_process()
        if self._is_stopping:
            return
        self._deaths += 1
        log.warning("a signing process died, another takes its place", error=repr(error), deaths=self._deaths)
        if self._deaths >= DEATHS_MAX:
            self._deaths = 0
            self._give_up("one signing process after another died of it")

    def _give_up(self, reason: str) -> None:
        while self._with_process:
            self._with_process.popleft().future.set_exception(SigningFailed(reason))

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()
