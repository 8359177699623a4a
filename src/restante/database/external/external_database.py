"""An external database: PostgreSQL, MySQL or MariaDB, or an SQLite file, reached by URL.

It has one connection and one thread, and runs each function in its own transaction. The connection is opened when it
is first needed, and again after it was lost: an unreachable database raises an error in its callers and affects
nothing else. The functions are of the same kind as for the server's own database, over the same `Connection`; commit
events are ignored, because no component of this process handles those of an external database.

Invariant: no password in a name, a message or a log line.
"""

import asyncio
import re
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import structlog

from restante.database.connection import Connection, Row
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.external.drivers import DRIVERS, Driver, TransactionMode
from restante.database.external.worker_thread import Closed, WorkerThread
from restante.database.lists.long_counts import Counting, LongCounts
from restante.database.queries import Query, number_parameters

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger()

CLOSE_SECONDS = 2.0
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class ExternalAddress:
    """The address of an external database. Users see its name, and dedupe receipts are stored under it."""

    name: str
    engine: Literal["postgres", "mysql", "sqlite"]
    url: str = field(repr=False)

    def __str__(self) -> str:
        return self.name


class ExternalConnection:
    """One driver connection, and the transaction that is open on it."""

    def __init__(self, driver: Driver, url: str) -> None:
        self._driver = driver
        with driver.translate_errors():
            self._conn = driver.connect(url)
        self._now_ms: int | None = None

    @property
    def now_ms(self) -> int:
        if self._now_ms is None:
            if self._driver.clock is None:
                self._now_ms = time.time_ns() // 1_000_000
            else:
                (row,) = self._fetch(self._driver.clock, {})
                self._now_ms = int(row["now_ms"])
        return self._now_ms

    @property
    def now_parameter(self) -> int:
        return self.now_ms

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        return self._fetch(*self._bind(query, parameters))

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        rows = self.all(query, **parameters)
        return rows[0] if rows else None

    def run(self, query: Query, /, **parameters: Any) -> int:
        text, values = self._bind(query, parameters)
        with self._driver.translate_errors():
            cursor = self._conn.cursor()
            cursor.execute(text, values)
            return int(cursor.rowcount)

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]], /) -> None:
        for row in rows:
            self.run(query, **row)

    def values(self, query: Query, /, **parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row[column] for column in row.keys()) for row in self.all(query, **parameters)]  # noqa: SIM118 — no dict

    def prefetch(self, query: Query, /, **parameters: Any) -> Callable[[], list[tuple[Any, ...]]]:
        rows = self.values(query, **parameters)
        return lambda: rows

    def run_rows(self, query: Query, rows: Iterable[tuple[Any, ...]], /) -> None:
        _, names = number_parameters(query.for_engine(self._driver.engine), "?")
        self.run_many(query, (dict(zip(names, row, strict=True)) for row in rows))

    def add_commit_event(self, event: object, /) -> None:
        """Ignored: no component handles commit events of external databases."""

    def lock(self, _kind: str, /, *_keys: int | str) -> None:
        """Does nothing: an exclusive transaction is requested when it begins."""

    def begin(self, mode: TransactionMode) -> None:
        self._now_ms = None
        with self._driver.translate_errors():
            self._driver.begin(self._conn, mode)

    def commit(self, mode: TransactionMode) -> None:
        with self._driver.translate_errors():
            self._conn.commit()
            self._driver.release_exclusive(self._conn, mode)

    def close(self) -> None:
        """The database rolls back an open transaction when the connection ends."""
        with self._driver.translate_errors():
            self._conn.close()

    def _fetch(self, text: str, values: Mapping[str, Any]) -> list[Row]:
        with self._driver.translate_errors():
            cursor = self._conn.cursor()
            cursor.execute(text, values)
            return list(cursor.fetchall())

    def _bind(self, query: Query, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The query and its values as the driver needs them. A list becomes one parameter per element."""
        lengths = tuple((name, len(value)) for name, value in parameters.items() if isinstance(value, list))
        values: dict[str, Any] = {}
        for name, value in parameters.items():
            if isinstance(value, list):
                values.update({f"{name}_{index}": each for index, each in enumerate(value)})
            else:
                values[name] = value
        return _text_for(query.for_engine(self._driver.engine), self._driver.placeholder, lengths), values


class ExternalDatabase:
    def __init__(self, address: ExternalAddress) -> None:
        self.address = address
        self.name = address.name
        # The error of the last transaction, for operators; None if it succeeded.
        self.problem: str | None = None
        self._driver = DRIVERS[address.engine]
        self._conn: ExternalConnection | None = None
        self._thread = WorkerThread(f"restante-external {address.name}")
        self._counts = LongCounts(self.read)

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function in a transaction; return when its effect is durable."""
        return await asyncio.wrap_future(self._submit(lambda conn: work(conn, *args, **kwargs), "write"))

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Like `write`, without changes; blocks no writer."""
        return await asyncio.wrap_future(self._submit(lambda conn: work(conn, *args, **kwargs), "read"))

    async def count(self, key: Hashable, make: Callable[[], Counting[T]]) -> T:
        """Count a list, however long it is: see `lists/long_counts.py`."""
        return await self._counts.count(key, make)

    async def recent_count(
        self, key: Hashable, make: Callable[[], Counting[T]], on_change: Callable[[], None], wait_seconds: float
    ) -> T | None:
        """The last count of a list, if a new one takes long: see `long_counts.py`."""
        return await self._counts.recent(key, make, on_change, wait_seconds)

    async def write_exclusive(
        self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Like `write`, while no other process runs an exclusive write on the same database."""
        return await asyncio.wrap_future(self._submit(lambda conn: work(conn, *args, **kwargs), "exclusive"))

    def write_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._submit(lambda conn: work(conn, *args, **kwargs), "write").result()

    def read_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._submit(lambda conn: work(conn, *args, **kwargs), "read").result()

    def close(self) -> None:
        """Does not wait for a server that hangs: its connection and transaction end with the process, if not before."""
        if not self._thread.close(self._drop, CLOSE_SECONDS):
            log.warning("external database does not respond, its connection is abandoned", source=self.name)

    def _submit(self, work: Callable[[Connection], T], mode: TransactionMode) -> "Future[T]":
        try:
            return self._thread.submit(lambda: self._transact(work, mode))
        except Closed:
            raise DatabaseUnavailable("the database is closed") from None

    def _transact(self, work: Callable[[Connection], T], mode: TransactionMode) -> T:
        try:
            if self._conn is None:
                self._conn = ExternalConnection(self._driver, self.address.url)
            self._conn.begin(mode)
            result = work(self._conn)
            self._conn.commit(mode)
        except BaseException as error:
            # The connection is in an unknown state: the next call opens a new one.
            self._drop()
            if isinstance(error, DatabaseError):
                self.problem = str(error)
            raise
        self.problem = None
        return result

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            try:
                conn.close()
            except DatabaseError:
                return


@lru_cache(maxsize=1024)
def _text_for(text: str, placeholder: str, lengths: tuple[tuple[str, int], ...]) -> str:
    """The text with the placeholders of the driver; `IN :ids` becomes `IN (…, …)`."""
    counts = dict(lengths)

    def replace(found: re.Match[str]) -> str:
        name = found[1]
        if name not in counts:
            return placeholder.format(name)
        return "(" + ", ".join(placeholder.format(f"{name}_{index}") for index in range(counts[name])) + ")"

    return _PARAMETER.sub(replace, text.replace("%", "%%") if "%" in placeholder else text)
