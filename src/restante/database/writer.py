"""The group-committing writer: many requests, one transaction, one flush to disk.

    request ─▶ queue ─▶ writer thread: BEGIN · a() · b() · c() · COMMIT ─▶ answers to a, b, c

Must always hold: a future is resolved only after the commit that contains its effect. One that raises costs nobody
else anything: if it changed no row it simply fails; if it did, the batch is rolled back and its members run again,
one by one, each in a transaction of its own.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from restante.database.connection import Connection
from restante.database.engine import EngineConnection
from restante.database.errors import DatabaseError, DatabaseUnavailable

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
    """One thread with one writable connection. `announce` is called from it with what each commit announced."""

    def __init__(self, conn: EngineConnection, announce: CommitListener) -> None:
        self._conn = conn
        self._announce = announce
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._foreign = conn.foreign_commits()
        self.commits = 0
        self.writes = 0
        self._thread = threading.Thread(target=self._run, name="restante-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._queue.put(_Job(work, future))
        return future

    def close(self) -> None:
        """Finish what was accepted, then end the thread."""
        self._queue.put(None)
        self._thread.join()
        self._conn.close()

    def _run(self) -> None:
        closing = False
        while not closing:
            try:
                batch = [self._queue.get(timeout=FOREIGN_COMMIT_CHECK_SECONDS)]
            except queue.Empty:
                self._notice_foreign_commit()
                continue
            while len(batch) < BATCH_MAX and not self._queue.empty():
                batch.append(self._queue.get())
            closing = None in batch
            jobs = [job for job in batch if job is not None and job.future.set_running_or_notify_cancel()]
            if jobs:
                self._run_together(jobs)

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
                except Exception as error:
                    if self._conn.changes != changes or isinstance(error, DatabaseError):
                        raise
                    failed.append((job, error))
            announced = self._conn.commit()
        except Exception as error:
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
            self._announce(announced)
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
            self._announce([ForeignCommit()])
