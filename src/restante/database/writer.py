"""The group-committing writer: many requests, one transaction, one flush to disk.

    request ─▶ queue ─▶ writer thread: BEGIN · a() · b() · c() · COMMIT ─▶ answers to a, b, c

Must always hold: a future is resolved only after the commit that contains its effect. One that raises costs nobody
else anything: if it changed no row it simply fails; if it did, the batch is rolled back and its members run again,
one by one, each in a transaction of its own.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import structlog

from restante.database.connection import Connection
from restante.database.engine import EngineConnection
from restante.database.errors import DatabaseError, DatabaseUnavailable

log = structlog.get_logger()

BATCH_MAX = 256
FOREIGN_COMMIT_CHECK_SECONDS = 0.1

CommitListener = Callable[[list[object]], None]


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """Another process changed the database: what this process remembers about it may be out of date."""


@dataclass(slots=True)
class _Job:
    work: Callable[[Connection], Any]
    future: Future[Any]


class Writer:
    """One thread with one writable connection. The listeners are called from it with what each commit announced."""

    def __init__(self, conn: EngineConnection, listeners: Sequence[CommitListener]) -> None:
        self._conn = conn
        self._listeners = listeners
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._accepting = threading.Lock()
        self._is_closed = False
        self._foreign = conn.foreign_commits()
        self._foreign_check_at = 0.0
        self.commits = 0
        self.writes = 0
        self._thread = threading.Thread(target=self._run, name="restante-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._accepting:
            if not self._is_closed:
                self._queue.put(_Job(work, future))
                return future
        future.set_exception(DatabaseUnavailable("the database is closed"))
        return future

    def close(self) -> None:
        """Finish what was accepted, then end the thread."""
        with self._accepting:
            self._is_closed = True
            self._queue.put(None)
        self._thread.join()
        self._conn.close()

    def _run(self) -> None:
        closing = False
        while not closing:
            batch = self._next_batch()
            closing = None in batch
            jobs = [job for job in batch if job is not None and job.future.set_running_or_notify_cancel()]
            if jobs:
                self._run_together(jobs)
            # Looked at by the clock, not when idle: a writer that is never idle has neighbours too.
            if time.monotonic() >= self._foreign_check_at:
                self._notice_foreign_commit()
                self._foreign_check_at = time.monotonic() + FOREIGN_COMMIT_CHECK_SECONDS

    def _next_batch(self) -> list[_Job | None]:
        """All that wait, up to a bound; nothing if nobody comes for a while."""
        try:
            batch = [self._queue.get(timeout=FOREIGN_COMMIT_CHECK_SECONDS)]
        except queue.Empty:
            return []
        while len(batch) < BATCH_MAX and not self._queue.empty():
            batch.append(self._queue.get())
        return batch

    def _run_together(self, jobs: list[_Job]) -> None:
        """Run all in one transaction; alone, one by one, those that a failing neighbour would drag along."""
        results: list[tuple[_Job, Any]] = []
        failed: list[tuple[_Job, BaseException]] = []
        try:
            self._conn.begin()
            for job in jobs:
                changes = self._conn.changes
                try:
                    results.append((job, job.work(self._conn)))
                except BaseException as error:
                    if self._conn.changes != changes or isinstance(error, DatabaseError):
                        raise
                    failed.append((job, error))
            announced = self._conn.commit()
        except BaseException as error:
            # Not even an exit may end this thread: others' requests wait for it. It ends whoever waits for this job.
            self._undo()
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
            elif isinstance(error, DatabaseUnavailable):
                for job in jobs:
                    job.future.set_exception(error)
            else:
                for job in jobs:
                    self._run_together([job])
            return
        self.commits += 1
        self.writes += len(results)
        if announced:
            self._tell(announced)
        for job, result in results:
            job.future.set_result(result)
        for job, failure in failed:
            job.future.set_exception(failure)

    def _undo(self) -> None:
        try:
            self._conn.rollback()
        except DatabaseError:
            # The engine has rolled back by itself (a full disk, a lost connection): nothing is left to undo.
            return

    def _notice_foreign_commit(self) -> None:
        try:
            foreign = self._conn.foreign_commits()
        except DatabaseError:
            return
        if foreign != self._foreign:
            self._foreign = foreign
            self._tell([ForeignCommit()])

    def _tell(self, announced: list[object]) -> None:
        for listener in self._listeners:
            try:
                listener(announced)
            except Exception:
                # It is committed: whoever waits for that must not suffer from one who listens.
                log.exception("a commit could not be announced")
