"""The group-committing writer: many writes, one transaction, one flush to disk.

    event loop                     writer thread (one per connection)
    ──────────                     ──────────────────────────────────
    await database.write(a) ──┐
    await database.write(b) ──┤
    run_batched(op, c) ───────┼──▶ WorkQueue ──▶ get everything queued ──▶ WriterAffinity: calls on keys that another
    run_batched(op, d) ───────┘                                            writer serves are deferred to that writer
                                        ▼
                                   BEGIN · a() · b() · op([c, d]) · preparations · COMMIT
                                        ▼
                                   CommitOrder: commit events ──▶ listeners, in the order of commits
                                        ▼
    a, b, c, d resume ◀─────────── futures and callbacks are resolved

There are as many threads as the engine has concurrent writers, each with its own connection. A free thread gets all
queued writes (`work_queue.py`). A thread that is the only one first waits for the next calls of those that it has
answered (`next_calls.py`). The writes of one batch are concurrent, so their order is not guaranteed: ordinary
writes run in the order they were queued, then each batched operation (`batching.py`) runs once with all of its calls.

Invariants: no caller gets its result before the commit that contains its effect. A write that raises does no harm to
the others of its batch: if it changed no row, only it fails; if it did, the batch is rolled back and its writes run
again, each in its own transaction. A write that would have to wait for a lock while it shares a transaction is
postponed to a later one: two transactions that each wait for the other's locks would wait for ever. Commit events are
published in the order of commits.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import structlog

from restante.database.commit_events import CommitOutcomeUnknown, ForeignCommit
from restante.database.connection import Connection
from restante.database.engine import EngineConnection
from restante.database.errors import (
    CommitUncertain,
    DatabaseError,
    DatabaseUnavailable,
    LockHeld,
    LockWaitEnded,
    TransactionConflict,
    UniqueViolation,
)
from restante.database.hang_watch import NO_ANSWER
from restante.database.writer.batching import BatchCall, CallGroup, Failed, abandon_calls, group_calls, resolve_calls
from restante.database.writer.commit_order import CommitOrder
from restante.database.writer.next_calls import NextCalls, loop_of_answered
from restante.database.writer.work_queue import ThreadWaker, WorkQueue
from restante.database.writer.writer_affinity import WriterAffinity

log = structlog.get_logger()

BATCH_MAX = 256
FOREIGN_COMMIT_CHECK_SECONDS = 0.1
NEVER = float("-inf")
# How often a write that conflicts with other transactions is run, in all.
RUNS_MAX = 5
# How long the writes of one transaction wait for locks, in all their runs. Each run waits for less: see `_SERVING` in
# postgres/session.py.
LOCK_SECONDS = 10.0

CommitListener = Callable[[list[object]], None]
# Called as the last step of each transaction that has commit events.
CommitPreparation = Callable[[EngineConnection], None]


@dataclass(slots=True, eq=False)
class _Job:
    """An ordinary write: a function, and the future of its result."""

    work: Callable[[Connection], Any]
    future: Future[Any]
    result: Any = None
    size: ClassVar[int] = 1

    def run(self, conn: Connection) -> None:
        self.result = self.work(conn)

    def split(self) -> "list[_Job]":
        return [self]

    def resolve(self) -> None:
        with suppress(InvalidStateError):  # abandoned
            self.future.set_result(self.result)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.future.set_exception(error)


_Work = _Job | CallGroup


@dataclass(frozen=True, slots=True)
class _Running:
    """The present batch of a writer thread."""

    began_at: float
    works: list[_Job | BatchCall[Any, Any]]


class Writer:
    """The queue, and one thread per connection.

    The listeners are called from those threads, one at a time, with the commit events of each commit.
    """

    def __init__(
        self,
        conns: Sequence[EngineConnection],
        listeners: Sequence[CommitListener],
        preparations: Sequence[CommitPreparation] = (),
    ) -> None:
        self._listeners = listeners
        self._preparations = preparations
        self._queue: WorkQueue[_Job | BatchCall[Any, Any]] = WorkQueue()
        self._commit_order = CommitOrder()
        self._affinity = WriterAffinity(len(conns))
        self._foreign_version = conns[0].foreign_version()
        self._foreign_check_at = 0.0
        self.commits = 0
        self.writes = 0
        # Monotonic times: the last commit that changed something, and the last failure of the database.
        self.wrote_at = NEVER
        self.failed_at = NEVER
        self._running: list[_Running | None] = [None] * len(conns)
        self._is_stuck = False
        # Whether the last check found a batch that runs for too long.
        self.has_overdue = False
        self._conns = conns
        self._threads = [
            threading.Thread(target=self._run, args=(number, conn), name="restante-writer", daemon=True)
            for number, conn in enumerate(conns)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[Connection], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        if self._is_stuck:
            future.set_exception(DatabaseUnavailable(NO_ANSWER))
        elif not self._queue.put(_Job(work, future)):
            future.set_exception(DatabaseUnavailable("the database is closed"))
        return future

    def submit_batched(self, call: BatchCall[Any, Any]) -> None:
        if self._is_stuck or not self._queue.put(call):
            call.outcome = Failed(DatabaseUnavailable(NO_ANSWER if self._is_stuck else "the database is closed"))
            resolve_calls([call])

    def abandon(self, seconds: float) -> bool:
        """Fail the writes whose batch runs for longer; if all threads are occupied by such, fail the queued ones, too.

        Returns whether all threads are occupied. Until one is free, every new write is refused. A failed write may
        still be committed.
        """
        now = time.monotonic()
        overdue = [
            (number, running)
            for number, running in enumerate(self._running)
            if running is not None and now - running.began_at >= seconds
        ]
        self.has_overdue = bool(overdue)
        self._is_stuck = len(overdue) == len(self._threads)
        works = [work for _number, running in overdue for work in running.works]
        works += [call for number, _running in overdue for call in self._affinity.drop_deferred(number)]
        works += self._queue.drain() if self._is_stuck else []
        if works:
            self.failed_at = now
        error = DatabaseUnavailable(NO_ANSWER)
        for job in works:
            if isinstance(job, _Job):
                job.fail(error)
        abandon_calls([call for call in works if isinstance(call, BatchCall) and not call.is_resolved], error)
        return self._is_stuck

    def close(self, timeout_seconds: float | None = None) -> bool:
        """Run all accepted writes, then stop the threads; False if that takes longer than the timeout."""
        self._queue.close()
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        for thread, conn in zip(self._threads, self._conns, strict=True):
            if not thread.is_alive():
                conn.close()
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self, number: int, conn: EngineConnection) -> None:
        checks_foreign_commits = number == 0
        waker = ThreadWaker()
        deferred: list[BatchCall[Any, Any]] = []
        has_one_writer = len(self._conns) == 1
        while deferred or not self._queue.is_drained:
            timeout = 0 if deferred else FOREIGN_COMMIT_CHECK_SECONDS if checks_foreign_commits else None
            batch = self._queue.get(waker, BATCH_MAX, timeout)
            works: list[_Work] = [
                job for job in batch if isinstance(job, _Job) and job.future.set_running_or_notify_cancel()
            ]
            calls = deferred + [call for call in batch if isinstance(call, BatchCall)]
            if batch or deferred:
                self._running[number] = _Running(time.monotonic(), [*deferred, *batch])
            works += group_calls(self._affinity.begin(number, calls[:BATCH_MAX]))
            if works:
                self._run_together(conn, works)
            deferred = calls[BATCH_MAX:] + self._affinity.end(number)
            self._running[number] = None
            self._is_stuck = False
            answered_loop = loop_of_answered(calls) if has_one_writer else None
            if answered_loop is not None:
                NextCalls(self._queue, answered_loop, BATCH_MAX).wait()
            # By the clock, not only when idle: a writer that is never idle must find foreign commits too.
            if checks_foreign_commits and time.monotonic() >= self._foreign_check_at:
                self._check_foreign_commit(conn)
                self._foreign_check_at = time.monotonic() + FOREIGN_COMMIT_CHECK_SECONDS

    def _run_together(
        self, conn: EngineConnection, works: Sequence[_Work], runs: int = 1, lock_end: float | None = None
    ) -> None:
        """Run all in one transaction. If one fails after it changed rows, run each in its own transaction."""
        lock_end = time.monotonic() + LOCK_SECONDS if lock_end is None else lock_end
        failed: dict[_Work, BaseException] = {}
        postponed: list[_Work] = []
        try:
            conn.begin(waits_for_locks=len(works) == 1)
            changes_at_begin = conn.change_count
            for work in works:
                changes = conn.change_count
                try:
                    work.run(conn)
                except BaseException as error:
                    if conn.change_count == changes and isinstance(error, LockHeld):
                        postponed.append(work)
                    elif conn.change_count != changes or isinstance(error, DatabaseError) or work.size > 1:
                        raise
                    else:
                        failed[work] = error
            if conn.commit_events:
                for prepare in self._preparations:
                    prepare(conn)
                # The ticket is issued next. It orders commits correctly only if this transaction holds all its locks.
                conn.flush()
            has_changes = conn.change_count != changes_at_begin
            self._commit(conn, sum(work.size for work in works if work not in failed and work not in postponed))
            if has_changes:
                self.wrote_at = time.monotonic()
        except BaseException as error:
            # BaseException: not even SystemExit may end this thread, as other writes wait for it. It is raised in the
            # caller that waits for this write.
            self._roll_back(conn)
            if isinstance(error, LockWaitEnded) and time.monotonic() < lock_end:
                self._run_together(conn, works, runs, lock_end)
                return
            self._run_alone(conn, [each for work in works for each in work.split()], error, runs)
            return
        for work in works:
            if work not in failed and work not in postponed:
                work.resolve()
        for work, failure in failed.items():
            work.fail(failure)
        if postponed:
            self._run_together(conn, postponed)

    def _commit(self, conn: EngineConnection, writes: int) -> None:
        """Commit, and publish the commit events before any caller gets its result."""
        # A commit without events needs no place in their order.
        ticket = self._commit_order.issue_ticket() if conn.commit_events else None
        commit_events: list[object] = []
        try:
            commit_events = conn.commit()
            self.commits += 1
            self.writes += writes
        except CommitUncertain:
            commit_events = [CommitOutcomeUnknown(), ForeignCommit()]
            raise
        finally:
            if commit_events:
                if ticket is None:
                    ticket = self._commit_order.issue_ticket()
                self._commit_order.publish_in_order(ticket, lambda: self._publish(commit_events))
            elif ticket is not None:
                self._commit_order.release_ticket(ticket)

    def _run_alone(self, conn: EngineConnection, works: Sequence[_Work], error: BaseException, runs: int) -> None:
        """Run each write in its own transaction, unless it would fail for the same reason."""
        if isinstance(error, DatabaseUnavailable):
            self.failed_at = time.monotonic()
            for work in works:
                work.fail(error)
        elif len(works) > 1:
            for work in works:
                self._run_together(conn, [work])
        elif runs < _runs_max(error):
            self._run_together(conn, works, runs + 1)
        else:
            works[0].fail(error)

    @staticmethod
    def _roll_back(conn: EngineConnection) -> None:
        try:
            conn.rollback()
        except DatabaseError:
            # The engine has already rolled back (full disk, lost connection).
            return

    def _check_foreign_commit(self, conn: EngineConnection) -> None:
        try:
            version = conn.foreign_version()
        except DatabaseError:
            return
        if version != self._foreign_version:
            self._foreign_version = version
            self._publish([ForeignCommit()])

    def _publish(self, commit_events: list[object]) -> None:
        for listener in self._listeners:
            try:
                listener(commit_events)
            except Exception:
                # The transaction is committed: its callers must get their results whatever a listener does.
                log.exception("commit listener failed")


def _runs_max(error: BaseException) -> int:
    """How often a write that fails with this error is run, in all.

    After a unique violation it runs twice: it may have read before another transaction committed the row, and now sees
    it.
    """
    if isinstance(error, TransactionConflict | LockHeld):
        return RUNS_MAX
    return 2 if isinstance(error, UniqueViolation) else 1
