"""The boundary between the asynchronous server and the synchronous domain code: `read` and `write`.

    settings = await database.read(install_configs.current, device_id)
    await database.write(install_configs.put, emit, device_id, items)

Operations that many callers run at the same time are batched: see `writer/batching.py`.

    claimed = await database.run_batched(claims, request)

The command line has no event loop and uses `read_now` and `write_now`: the same functions, the same transactions.
"""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from restante.database.connection import Connection
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError
from restante.database.hang_watch import HangWatch
from restante.database.lists.long_counts import Counting, LongCounts
from restante.database.reader_pool import ReaderPool
from restante.database.writer.batching import BatchCall, BatchOperation, Failed, Request, Result
from restante.database.writer.writer import CommitListener, CommitPreparation, Writer

P = ParamSpec("P")
T = TypeVar("T")


def _resolve(future: "Future[Result] | asyncio.Future[Result]", outcome: Result | Failed) -> None:
    if future.cancelled():
        return
    if isinstance(outcome, Failed):
        future.set_exception(outcome.error)
    else:
        future.set_result(outcome)


def _connect_writer(engine: Engine, *, limits_transactions: bool) -> EngineConnection:
    conn = engine.connect(writable=True)
    if limits_transactions:
        try:
            conn.limit_transactions()
        except DatabaseError:
            conn.close()
            raise
    return conn


def _connect_writers(engine: Engine, *, limits_transactions: bool) -> list[EngineConnection]:
    """Make as many writable connections as the engine has writers; all or none.

    They connect at the same time: with a distant or busy server each connection takes a while, and a start waits for
    all of them.
    """
    with ThreadPoolExecutor(engine.writers, thread_name_prefix="restante-connecting") as threads:
        connecting = [
            threads.submit(_connect_writer, engine, limits_transactions=limits_transactions)
            for _ in range(engine.writers)
        ]
    errors = [error for each in connecting if (error := each.exception()) is not None]
    if errors:
        for each in connecting:
            if each.exception() is None:
                each.result().close()
        raise errors[0]
    return [each.result() for each in connecting]


class Database:
    def __init__(self, engine: Engine, *, limits_transactions: bool = False) -> None:
        """A server limits its transactions, whose locks other nodes wait for. Commands may take longer."""
        self._engine = engine
        self.writers, self.readers = engine.writers, engine.readers
        self._listeners: list[CommitListener] = []
        self._preparations: list[CommitPreparation] = []
        conns = _connect_writers(engine, limits_transactions=limits_transactions)
        self._writer = Writer(conns, self._listeners, self._preparations)
        self._readers = ReaderPool(engine)
        self._watch: HangWatch | None = None
        self._counts = LongCounts(self.read)

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function in a write transaction; return when its effect is durable."""
        return await asyncio.wrap_future(self.submit(work, *args, **kwargs))

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function on a snapshot."""
        return await asyncio.wrap_future(self._readers.submit(lambda conn: work(conn, *args, **kwargs)))

    async def count(self, key: Hashable, make: Callable[[], Counting[T]]) -> T:
        """Count a list, however long it is: see `lists/long_counts.py`."""
        return await self._counts.count(key, make)

    async def recent_count(
        self, key: Hashable, make: Callable[[], Counting[T]], on_change: Callable[[], None], wait_seconds: float
    ) -> T | None:
        """The last count of a list, if a new one takes long: see `long_counts.py`."""
        return await self._counts.recent(key, make, on_change, wait_seconds)

    def write_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self.submit(work, *args, **kwargs).result()

    def read_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._readers.submit(lambda conn: work(conn, *args, **kwargs)).result()

    def submit(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Like `write`, for callers that are not tasks."""
        return self._writer.submit(lambda conn: work(conn, *args, **kwargs))

    async def run_batched(self, operation: BatchOperation[Request, Result], request: Request) -> Result:
        """Like `write`, in one batch with the other queued calls of the operation."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        call = self.submit_batched(operation, request, partial(_resolve, future))
        try:
            return await future
        except asyncio.CancelledError:
            call.cancel()
            raise

    def submit_batched(
        self, operation: BatchOperation[Request, Result], request: Request, then: Callable[[Result | Failed], None]
    ) -> BatchCall[Request, Result]:
        """Like `run_batched`, for callers that are not tasks: `then` gets the outcome, in the current event loop."""
        call = BatchCall(operation, request, then, asyncio.get_running_loop())
        self._writer.submit_batched(call)
        return call

    def run_batched_now(self, operation: BatchOperation[Request, Result], request: Request) -> Result:
        """Like `run_batched`, without an event loop."""
        future: Future[Result] = Future()
        self._writer.submit_batched(BatchCall(operation, request, partial(_resolve, future), None))
        return future.result()

    def on_commit(self, listener: CommitListener) -> None:
        """Call the listener with the commit events of each commit, in the thread of the writer."""
        self._listeners.append(listener)

    def before_commit(self, prepare: CommitPreparation) -> None:
        """Call the function as the last step of each transaction that has commit events."""
        self._preparations.append(prepare)

    @property
    def wrote_at(self) -> float:
        """The monotonic time of the last commit that changed something."""
        return self._writer.wrote_at

    @property
    def write_failed_at(self) -> float:
        """The monotonic time at which the database last failed to take a write."""
        return self._writer.failed_at

    def lost_file(self) -> str | None:
        """How the file of an embedded database was lost; None if it was not."""
        return self._engine.lost_file()

    @property
    def commits(self) -> int:
        """How many transactions have been committed since the start."""
        return self._writer.commits

    @property
    def writes(self) -> int:
        """How many writes those commits contained."""
        return self._writer.writes

    def set_deadline(self, seconds: float) -> None:
        """From now on, a call that the database does not answer by then raises DatabaseUnavailable. Called once."""
        self._watch = HangWatch([self._writer, self._readers], seconds)

    @property
    def is_hanging(self) -> bool:
        """Whether the last check found a call that the database has not answered in time."""
        return self._writer.has_overdue or self._readers.has_overdue

    def end_at(self, monotonic: float) -> None:
        """The server stops: from that time on, calls that the database does not answer fail almost at once."""
        if self._watch is not None:
            self._watch.end_at(monotonic)

    def close(self, timeout_seconds: float | None = None) -> bool:
        """Finish all accepted reads and writes; after the timeout, abandon the threads and return False.

        The writer closes last: a read-only connection cannot checkpoint.
        """
        are_readers_closed = self._readers.close(timeout_seconds)
        is_writer_closed = self._writer.close(timeout_seconds)
        if self._watch is not None:
            self._watch.close()
        return are_readers_closed and is_writer_closed
