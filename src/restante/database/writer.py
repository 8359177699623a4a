"""The group-committing writer: many requests, one transaction, one flush to disk.

    request ─▶ queue ─▶ writer thread: BEGIN · a() · b() · hot([c, d]) · COMMIT ─▶ answers to a, b, c, d

There are as many threads as the engine lets write at the same time, each with a connection of its own; each takes all
that wait when it is free (`incoming.py`). All of a batch are under way at the same time, so their order is nobody's
promise: ordinary writes run in the order they came, then each hot operation (`hot.py`) once, with all of its calls.

Must always hold: nobody is answered before the commit that contains their effect. One that raises costs nobody
else anything: if it changed no row it simply fails; if it did, the batch is rolled back and its members run again,
one by one, each in a transaction of its own. So does one that would have to wait for another transaction, if it shares
its own: waiting while others wait for us is how two wait for ever. What is announced is told in the order of commits.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar

import structlog

from restante.database.commit_order import CommitOrder
from restante.database.connection import Connection
from restante.database.engine import EngineConnection
from restante.database.errors import (
    CommitUncertain,
    Contended,
    DatabaseError,
    DatabaseUnavailable,
    Interfered,
    UniqueViolation,
)
from restante.database.hot import Failed, HotCall, HotCalls, hand_back, together
from restante.database.incoming import Bell, Incoming
from restante.database.turns import Turns

log = structlog.get_logger()

BATCH_MAX = 256
FOREIGN_COMMIT_CHECK_SECONDS = 0.1
# How often a write that another transaction interfered with is run in all.
RUNS_MAX = 5

CommitListener = Callable[[list[object]], None]
# Called in each transaction that announces something, when all else in it is done.
CommitPreparation = Callable[[EngineConnection], None]


@dataclass(frozen=True, slots=True)
class ForeignCommit:
    """Another process changed the database: what this process remembers about it may be out of date."""


@dataclass(frozen=True, slots=True)
class NewsLost:
    """Something may have been committed that nobody was told of: what this process remembers may be out of date."""


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
    """The queue, and a thread for each connection. The listeners are called from those threads, one at a time, with
    what each commit announced."""

    def __init__(
        self,
        conns: Sequence[EngineConnection],
        listeners: Sequence[CommitListener],
        preparations: Sequence[CommitPreparation] = (),
    ) -> None:
        self._listeners = listeners
        self._preparations = preparations
        self._incoming: Incoming[_Job | HotCall[Any, Any]] = Incoming()
        self._order = CommitOrder()
        self._turns = Turns(len(conns))
        self._foreign = conns[0].foreign_commits()
        self._foreign_check_at = 0.0
        self.commits = 0
        self.writes = 0
        self._conns = conns
        self._threads = [
            threading.Thread(target=self._run, args=(number, conn), name="restante-writer", daemon=True)
            for number, conn in enumerate(conns)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[Connection], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        if not self._incoming.put(_Job(work, future)):
            future.set_exception(DatabaseUnavailable("the database is closed"))
        return future

    def submit_hot(self, call: HotCall[Any, Any]) -> None:
        if not self._incoming.put(call):
            call.outcome = Failed(DatabaseUnavailable("the database is closed"))
            hand_back([call])

    def close(self) -> None:
        """Finish what was accepted, then end the threads."""
        self._incoming.close()
        for thread in self._threads:
            thread.join()
        for conn in self._conns:
            conn.close()

    def _run(self, number: int, conn: EngineConnection) -> None:
        watches = number == 0
        bell = Bell()
        own: list[HotCall[Any, Any]] = []
        while own or not self._incoming.is_over:
            seconds = 0 if own else FOREIGN_COMMIT_CHECK_SECONDS if watches else None
            batch = self._incoming.take(bell, BATCH_MAX, seconds)
            works: list[_Work] = [
                job for job in batch if isinstance(job, _Job) and job.future.set_running_or_notify_cancel()
            ]
            calls = own + [call for call in batch if isinstance(call, HotCall)]
            works += together(self._turns.begin(number, calls[:BATCH_MAX]))
            if works:
                self._run_together(conn, works)
            own = calls[BATCH_MAX:] + self._turns.end(number)
            # Looked at by the clock, not when idle: a writer that is never idle has neighbours too.
            if watches and time.monotonic() >= self._foreign_check_at:
                self._notice_foreign_commit(conn)
                self._foreign_check_at = time.monotonic() + FOREIGN_COMMIT_CHECK_SECONDS

    def _run_together(self, conn: EngineConnection, works: Sequence[_Work], runs: int = 1) -> None:
        """Run all in one transaction; alone, one by one, those that a failing neighbour would drag along."""
        failed: dict[_Work, BaseException] = {}
        postponed: list[_Work] = []
        try:
            conn.begin(patient=len(works) == 1)
            for work in works:
                changes = conn.changes
                try:
                    work.run(conn)
                except BaseException as error:
                    if conn.changes == changes and isinstance(error, Contended):
                        postponed.append(work)
                    elif conn.changes != changes or isinstance(error, DatabaseError) or work.size > 1:
                        raise
                    else:
                        failed[work] = error
            if conn.announced:
                for prepare in self._preparations:
                    prepare(conn)
                # Commits are told by when they begin: not before all is held that this one is about.
                conn.arrive()
            self._commit(conn, sum(work.size for work in works if work not in failed and work not in postponed))
        except BaseException as error:
            # Not even an exit may end this thread: others' requests wait for it. It ends whoever waits for this job.
            self._undo(conn)
            self._run_apart(conn, [each for work in works for each in work.alone()], error, runs)
            return
        for work in works:
            if work not in failed and work not in postponed:
                work.answer()
        for work, failure in failed.items():
            work.fail(failure)
        if postponed:
            self._run_together(conn, postponed)

    def _commit(self, conn: EngineConnection, writes: int) -> None:
        """Commit, and tell what was announced before anybody is answered."""
        ticket = self._order.take_ticket()
        announced: list[object] = []
        try:
            announced = conn.commit()
            self.commits += 1
            self.writes += writes
        except CommitUncertain:
            announced = [NewsLost(), ForeignCommit()]
            raise
        finally:
            if announced:
                self._order.tell(ticket, lambda: self._tell(announced))
            else:
                self._order.give_back(ticket)

    def _run_apart(self, conn: EngineConnection, works: Sequence[_Work], error: BaseException, runs: int) -> None:
        """What could not run together: each in a transaction of its own, unless that would fail for the same reason."""
        if isinstance(error, DatabaseUnavailable):
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
    def _undo(conn: EngineConnection) -> None:
        try:
            conn.rollback()
        except DatabaseError:
            # The engine has rolled back by itself (a full disk, a lost connection): nothing is left to undo.
            return

    def _notice_foreign_commit(self, conn: EngineConnection) -> None:
        try:
            foreign = conn.foreign_commits()
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


def _runs_max(error: BaseException) -> int:
    """How often a write is run that ends so. Whom a unique index refuses may have looked before another committed: the
    second time it sees what is there."""
    if isinstance(error, Interfered | Contended):
        return RUNS_MAX
    return 2 if isinstance(error, UniqueViolation) else 1
