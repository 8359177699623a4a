"""The edge between the asynchronous server and the synchronous domain: `read` and `write`, and nothing else.

    settings = await database.read(install_configs.current, device_id)
    await database.write(install_configs.put, emit, device_id, items)

A command line without an event loop uses `read_now` and `write_now`: the same functions, the same transactions.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from restante.database.connection import Connection
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.writer import CommitListener, Writer

P = ParamSpec("P")
T = TypeVar("T")

READERS = 2


class Database:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._listeners: list[CommitListener] = []
        self._writer = Writer(engine.connect(writable=True), self._listeners)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="restante-reader")
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

    def on_commit(self, listener: CommitListener) -> None:
        """Have the listener called, in the writer's thread, with what each commit announced."""
        self._listeners.append(listener)

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
