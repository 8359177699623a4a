"""The reader threads: each has a read-only connection, and runs one read at a time on a snapshot.

Invariant: a read that hangs, on a server that does not answer, keeps neither its caller nor the end of the process: its
caller gets DatabaseUnavailable after a deadline (`hang_watch.py`), and its thread is abandoned.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from restante.database.connection import Connection
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.hang_watch import NO_ANSWER
from restante.database.writer.work_queue import ThreadWaker, WorkQueue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Read:
    work: Callable[[Connection], Any]
    future: Future[Any]


class ReaderPool:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: WorkQueue[_Read] = WorkQueue()
        # When each thread began its present read, and that read.
        self._running: list[tuple[float, _Read] | None] = [None] * engine.readers
        self._is_stuck = False
        self.has_overdue = False
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name="restante-reader", daemon=True)
            for number in range(engine.readers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[Connection], T]) -> "Future[T]":
        if self._is_stuck:
            raise DatabaseUnavailable(NO_ANSWER)
        future: Future[T] = Future()
        if not self._queue.put(_Read(work, future)):
            raise DatabaseUnavailable("the database is closed")
        return future

    def abandon(self, seconds: float) -> bool:
        """Fail the reads that run for longer; if all threads are occupied by such, fail the queued ones, too.

        Returns whether all threads are occupied. Until one is free, every new read is refused.
        """
        now = time.monotonic()
        overdue = [running[1] for running in self._running if running is not None and now - running[0] >= seconds]
        self.has_overdue = bool(overdue)
        self._is_stuck = len(overdue) == len(self._threads)
        for read in overdue + (self._queue.drain() if self._is_stuck else []):
            with suppress(InvalidStateError):
                read.future.set_exception(DatabaseUnavailable(NO_ANSWER))
        return self._is_stuck

    def close(self, timeout_seconds: float | None = None) -> bool:
        """Finish all accepted reads and close the connections; False if that takes longer."""
        self._queue.close()
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, number: int) -> None:
        waker, conn = ThreadWaker(), None
        while not self._queue.is_drained:
            for read in self._queue.get(waker, 1):
                if not read.future.set_running_or_notify_cancel():
                    continue
                self._running[number] = time.monotonic(), read
                conn = self._read(conn, read)
                self._running[number] = None
                self._is_stuck = False
        if conn is not None:
            conn.close()

    def _read(self, conn: EngineConnection | None, read: _Read) -> EngineConnection | None:
        """Run the read and return the connection for the next one; None if it must be replaced."""
        try:
            if conn is None:
                conn = self._engine.connect(writable=False)
            conn.begin()
            try:
                result = read.work(conn)
            finally:
                conn = _ended(conn)
        except BaseException as error:
            # BaseException: not even SystemExit may end this thread. It is raised in the caller.
            with suppress(InvalidStateError):
                read.future.set_exception(error)
        else:
            with suppress(InvalidStateError):
                read.future.set_result(result)
        return conn


def _ended(conn: EngineConnection) -> EngineConnection | None:
    try:
        conn.rollback()
    except DatabaseError:
        # A snapshot has nothing to lose.
        conn.close()
        return None
    return conn
