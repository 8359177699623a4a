"""The edge between the asynchronous server and the synchronous domain: `read` and `write`, and nothing else.

    settings = await database.read(install_configs.current, device_id)
    await database.write(install_configs.put, emit, device_id, items)

Operations that many callers want at the same moment are run for all of them at once: see `hot.py`.

    claimed = await database.run_hot(claims, wanted)

A command line without an event loop uses `read_now` and `write_now`: the same functions, the same transactions.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from restante.database.connection import Connection
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.hot import Asked, Failed, HotCall, HotOperation, Result
from restante.database.writer import CommitListener, CommitPreparation, Writer

P = ParamSpec("P")
T = TypeVar("T")


def _resolve(answered: "Future[Result] | asyncio.Future[Result]", outcome: Result | Failed) -> None:
    if answered.cancelled():
        return
    if isinstance(outcome, Failed):
        answered.set_exception(outcome.error)
    else:
        answered.set_result(outcome)


def _connected(engine: Engine) -> list[EngineConnection]:
    """As many connections to write on as the engine has writers; all or none.

    Made at the same time: a server that is far away or busy lets each of them wait, and a start waits for all."""
    with ThreadPoolExecutor(engine.writers, thread_name_prefix="restante-connecting") as threads:
        made = [threads.submit(engine.connect, writable=True) for _ in range(engine.writers)]
    failed = [error for each in made if (error := each.exception()) is not None]
    if failed:
        for each in made:
            if each.exception() is None:
                each.result().close()
        raise failed[0]
    return [each.result() for each in made]


class Database:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.writers, self.readers = engine.writers, engine.readers
        self._listeners: list[CommitListener] = []
        self._preparations: list[CommitPreparation] = []
        self._writer = Writer(_connected(engine), self._listeners, self._preparations)
        self._readers = ThreadPoolExecutor(engine.readers, thread_name_prefix="restante-reader")
        self._reader_conn = threading.local()
        self._reader_conns: list[EngineConnection] = []

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function in a write transaction; return when its effect is durable."""
        return await asyncio.wrap_future(self.submit(work, *args, **kwargs))

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function on a snapshot."""
        return await asyncio.wrap_future(self._submit_read(lambda conn: work(conn, *args, **kwargs)))

    def write_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self.submit(work, *args, **kwargs).result()

    def read_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._submit_read(lambda conn: work(conn, *args, **kwargs)).result()

    def submit(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """As `write`, for callers that are not tasks."""
        return self._writer.submit(lambda conn: work(conn, *args, **kwargs))

    async def run_hot(self, operation: HotOperation[Asked, Result], asked: Asked) -> Result:
        """As `write`, together with the other calls of the operation that wait."""
        answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        call = self.submit_hot(operation, asked, partial(_resolve, answered))
        try:
            return await answered
        except asyncio.CancelledError:
            call.cancel()
            raise

    def submit_hot(
        self, operation: HotOperation[Asked, Result], asked: Asked, then: Callable[[Result | Failed], None]
    ) -> HotCall[Asked, Result]:
        """As `run_hot`, for callers that are not tasks: `then` gets the outcome, in the loop that this is called in."""
        call = HotCall(operation, asked, then, asyncio.get_running_loop())
        self._writer.submit_hot(call)
        return call

    def run_hot_now(self, operation: HotOperation[Asked, Result], asked: Asked) -> Result:
        """As `run_hot`, without a loop."""
        answered: Future[Result] = Future()
        self._writer.submit_hot(HotCall(operation, asked, partial(_resolve, answered), None))
        return answered.result()

    def on_commit(self, listener: CommitListener) -> None:
        """Have the listener called, in the writer's thread, with what each commit announced."""
        self._listeners.append(listener)

    def before_commit(self, prepare: CommitPreparation) -> None:
        """Have the function called in each transaction that announces something, as the last that is done in it."""
        self._preparations.append(prepare)

    @property
    def commits(self) -> int:
        """How many transactions have been committed since the start."""
        return self._writer.commits

    @property
    def writes(self) -> int:
        """How many writes those commits contained."""
        return self._writer.writes

    def close(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        for conn in self._reader_conns:
            conn.close()

    def _submit_read(self, work: Callable[[Connection], T]) -> "Future[T]":
        try:
            return self._readers.submit(self._read, work)
        except RuntimeError:
            raise DatabaseUnavailable("the database is closed") from None

    def _read(self, work: Callable[[Connection], T]) -> T:
        conn = getattr(self._reader_conn, "conn", None)
        if conn is None:
            conn = self._reader_conn.conn = self._engine.connect(writable=False)
            self._reader_conns.append(conn)
        conn.begin()
        try:
            return work(conn)
        finally:
            try:
                conn.rollback()
            except DatabaseError:
                # A snapshot has nothing to lose; a connection that cannot end it is replaced.
                self._reader_conn.conn = None
