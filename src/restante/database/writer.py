"""The group-committing writer: many requests, one transaction, one flush to disk.

    request ─▶ queue ─▶ writer thread: BEGIN · a() · b() · hot([c, d]) · COMMIT ─▶ answers to a, b, c, d

All of a batch are under way at the same time, so their order is nobody's promise: ordinary writes run in the order they
came, then each hot operation (`hot.py`) once, with all of its calls.

Must always hold: nobody is answered before the commit that contains their effect. One that raises costs nobody
else anything: if it changed no row it simply fails; if it did, the batch is rolled back and its members run again,
one by one, each in a transaction of its own.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar

import structlog

from restante.database.connection import Connection
from restante.database.engine import EngineConnection
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.hot import Failed, HotCall, HotCalls, hand_back, together

log = structlog.get_logger()

BATCH_MAX = 256
FOREIGN_COMMIT_CHECK_SECONDS = 0.1

CommitListener = Callable[[list[object]], None]


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """Another process changed the database: what this process remembers about it may be out of date."""


@dataclass(slots=True, eq=False)
class _Job:
    """An ordinary write: a function, and who waits for what it returns."""

    work: Callable[[Connection], Any]
    future: Future[Any]
    result: Any = None
    size: ClassVar[int] = 1

    def run(self, conn: Connection) -> None:
        self.result = self.work(conn)

    def alone(self) -> "list[_Job]":
        return [self]

    def answer(self) -> None:
        self.future.set_result(self.result)

    def fail(self, error: BaseException) -> None:
        self.future.set_exception(error)


_Work = _Job | HotCalls


class Writer:
    """One thread with one writable connection. The listeners are called from it with what each commit announced."""

    def __init__(self, conn: EngineConnection, listeners: Sequence[CommitListener]) -> None:
        self._conn = conn
        self._listeners = listeners
        self._queue: queue.SimpleQueue[_Job | HotCall[Any, Any] | None] = queue.SimpleQueue()
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

    def submit_hot(self, call: HotCall[Any, Any]) -> None:
        with self._accepting:
            if not self._is_closed:
                self._queue.put(call)
                return
        call.outcome = Failed(DatabaseUnavailable("the database is closed"))
        hand_back([call])

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
            works: list[_Work] = [
                job for job in batch if isinstance(job, _Job) and job.future.set_running_or_notify_cancel()
            ]
            works += together(call for call in batch if isinstance(call, HotCall))
            if works:
                self._run_together(works)
            # Looked at by the clock, not when idle: a writer that is never idle has neighbours too.
            if time.monotonic() >= self._foreign_check_at:
                self._notice_foreign_commit()
                self._foreign_check_at = time.monotonic() + FOREIGN_COMMIT_CHECK_SECONDS

    def _next_batch(self) -> list[_Job | HotCall[Any, Any] | None]:
        """All that wait, up to a bound; nothing if nobody comes for a while."""
        try:
            batch = [self._queue.get(timeout=FOREIGN_COMMIT_CHECK_SECONDS)]
        except queue.Empty:
            return []
        while len(batch) < BATCH_MAX and not self._queue.empty():
            batch.append(self._queue.get())
        return batch

    def _run_together(self, works: Sequence[_Work]) -> None:
        """Run all in one transaction; alone, one by one, those that a failing neighbour would drag along."""
        failed: dict[_Work, BaseException] = {}
        try:
            self._conn.begin()
            for work in works:
                changes = self._conn.changes
                try:
                    work.run(self._conn)
                except BaseException as error:
                    if self._conn.changes != changes or isinstance(error, DatabaseError) or work.size > 1:
                        raise
                    failed[work] = error
            announced = self._conn.commit()
        except BaseException as error:
            # Not even an exit may end this thread: others' requests wait for it. It ends whoever waits for this job.
            self._undo()
            self._run_apart([each for work in works for each in work.alone()], error)
            return
        self.commits += 1
        self.writes += sum(work.size for work in works if work not in failed)
        if announced:
            self._tell(announced)
        for work in works:
            if work not in failed:
                work.answer()
        for work, failure in failed.items():
            work.fail(failure)

    def _run_apart(self, works: Sequence[_Work], error: BaseException) -> None:
        """What could not run together: each in a transaction of its own, unless that would fail for the same reason."""
        if len(works) == 1 or isinstance(error, DatabaseUnavailable):
            for work in works:
                work.fail(error)
        else:
            for work in works:
                self._run_together([work])

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
