"""A database of the user's: PostgreSQL, MySQL or MariaDB, or an SQLite file, reached by URL.

One connection, one thread, one transaction for each piece of work. It is opened when first needed and again after it
was lost, so a database that is away costs whoever asks it an error, and nobody else anything. Work is the same kind
of function as for the server's own database, over the same `Connection`; only announcements are not heard, as nobody
in this process listens to another's database.

Must always hold: no password in a name, a message or a log line.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import structlog

from restante.database.connection import Connection, Row
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.one_thread import Closed, OneThread
from restante.database.outside_drivers import DRIVERS, Driver, How
from restante.database.queries import Query, numbered

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger()

CLOSE_SECONDS = 2.0
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@dataclass(frozen=True, slots=True)
class OutsideAddress:
    """Where such a database is. Its name is what people see and receipts are kept under."""

    name: str
    engine: Literal["postgres", "mysql", "sqlite"]
    url: str = field(repr=False)

    def __str__(self) -> str:
        return self.name


class OutsideConnection:
    """One driver connection with the transaction that is open on it."""

    def __init__(self, driver: Driver, url: str) -> None:
        self._driver = driver
        with driver.our_errors():
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

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        return self._fetch(*self._spelled(query, parameters))

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        rows = self.all(query, **parameters)
        return rows[0] if rows else None

    def run(self, query: Query, /, **parameters: Any) -> int:
        text, values = self._spelled(query, parameters)
        with self._driver.our_errors():
            cursor = self._conn.cursor()
            cursor.execute(text, values)
            return int(cursor.rowcount)

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]], /) -> None:
        for row in rows:
            self.run(query, **row)

    def values(self, query: Query, /, **parameters: Any) -> list[tuple[Any, ...]]:
        return [tuple(row[column] for column in row.keys()) for row in self.all(query, **parameters)]  # noqa: SIM118 — no dict

    def values_later(self, query: Query, /, **parameters: Any) -> Callable[[], list[tuple[Any, ...]]]:
        rows = self.values(query, **parameters)
        return lambda: rows

    def run_rows(self, query: Query, rows: Iterable[tuple[Any, ...]], /) -> None:
        _, names = numbered(query.for_engine(self._driver.engine), "?")
        self.run_many(query, (dict(zip(names, row, strict=True)) for row in rows))

    def announce(self, event: object, /) -> None:
        """Nobody in this process listens to another's database."""

    def lock(self, _kind: str, /, *_keys: int | str) -> None:
        """Who must be alone there says so when it begins."""

    def begin(self, how: How) -> None:
        self._now_ms = None
        with self._driver.our_errors():
            self._driver.begin(self._conn, how)

    def commit(self, how: How) -> None:
        with self._driver.our_errors():
            self._conn.commit()
            self._driver.let_others(self._conn, how)

    def close(self) -> None:
        """Whatever is open is undone by the database, which sees the connection end."""
        with self._driver.our_errors():
            self._conn.close()

    def _fetch(self, text: str, values: Mapping[str, Any]) -> list[Row]:
        with self._driver.our_errors():
            cursor = self._conn.cursor()
            cursor.execute(text, values)
            return list(cursor.fetchall())

    def _spelled(self, query: Query, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """The query as the driver takes it; a list becomes as many parameters as it has members."""
        lengths = tuple((name, len(value)) for name, value in parameters.items() if isinstance(value, list))
        values: dict[str, Any] = {}
        for name, value in parameters.items():
            if isinstance(value, list):
                values.update({f"{name}_{index}": each for index, each in enumerate(value)})
            else:
                values[name] = value
        return _text_for(query.for_engine(self._driver.engine), self._driver.placeholder, lengths), values


class OutsideDatabase:
    def __init__(self, address: OutsideAddress) -> None:
        self.address = address
        self.name = address.name
        # Why it could not be reached the last time, for those who look after it.
        self.problem: str | None = None
        self._driver = DRIVERS[address.engine]
        self._conn: OutsideConnection | None = None
        self._thread = OneThread(f"restante-outside {address.name}")

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run the function in a transaction; return when its effect is durable."""
        return await asyncio.wrap_future(self._submit(lambda conn: work(conn, *args, **kwargs), "write"))

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, for who changes nothing and is to be in no writer's way."""
        return await asyncio.wrap_future(self._submit(lambda conn: work(conn, *args, **kwargs), "read"))

    async def write_alone(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, while nobody else who uses this function on the same database is at it."""
        return await asyncio.wrap_future(self._submit(lambda conn: work(conn, *args, **kwargs), "alone"))

    def write_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._submit(lambda conn: work(conn, *args, **kwargs), "write").result()

    def read_now(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._submit(lambda conn: work(conn, *args, **kwargs), "read").result()

    def close(self) -> None:
        """What hangs over there is not waited for: connection and transaction end with the process, if not before."""
        if not self._thread.close(self._drop, CLOSE_SECONDS):
            log.warning("a database does not answer, the connection to it is left behind", source=self.name)

    def _submit(self, work: Callable[[Connection], T], how: How) -> "Future[T]":
        try:
            return self._thread.submit(lambda: self._transact(work, how))
        except Closed:
            raise DatabaseUnavailable("the database is closed") from None

    def _transact(self, work: Callable[[Connection], T], how: How) -> T:
        try:
            if self._conn is None:
                self._conn = OutsideConnection(self._driver, self.address.url)
            self._conn.begin(how)
            result = work(self._conn)
            self._conn.commit(how)
        except BaseException as error:
            # A connection that failed in the middle of something is not worth mending: the next work opens another.
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
    """The text with parameters spelled the driver's way; `IN :ids` becomes `IN (…, …)`."""
    counts = dict(lengths)

    def spelled(found: re.Match[str]) -> str:
        name = found[1]
        if name not in counts:
            return placeholder.format(name)
        return "(" + ", ".join(placeholder.format(f"{name}_{index}") for index in range(counts[name])) + ")"

    return _PARAMETER.sub(spelled, text.replace("%", "%%") if "%" in placeholder else text)
