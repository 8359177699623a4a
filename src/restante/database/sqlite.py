"""The embedded engine: one SQLite file in WAL mode, every commit flushed to disk before it counts.

One connection writes (`BEGIN IMMEDIATE`); any number read, each from a snapshot. SQLite runs in this process, so the
database's clock is this machine's clock.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from restante.database.channel import Channel
from restante.database.connection import Row
from restante.database.errors import DatabaseError, DatabaseUnavailable, UniqueViolation
from restante.database.queries import Query, numbered

Clock = Callable[[], int]
BUSY_SECONDS = 10.0
_OUT_OF_REACH = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CORRUPT,
)

# What the driver is not told of, it asks at every use for a way to write it, which takes longer than the writing.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), lambda nothing: nothing)


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _translated(error: sqlite3.Error) -> DatabaseError:
    """What the driver raised, as what the rest of the program knows."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
        return UniqueViolation(str(error).removeprefix("UNIQUE constraint failed: "))
    if code is not None and code & 0xFF in _OUT_OF_REACH:
        return DatabaseUnavailable(str(error))
    return DatabaseError(str(error))


class _OurErrors:
    """Translates the driver's exceptions. A class because it stands around every statement: a generator costs more."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise _translated(error) from error


_our_errors = _OurErrors()


class SqliteConnection:
    """One driver connection with the transaction that is open on it."""

    engine = "sqlite"

    def __init__(self, path: Path, *, writable: bool, clock: Clock) -> None:
        mode = "rwc" if writable else "ro"
        with _our_errors:
            self._driver = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
            )
            self._driver.row_factory = sqlite3.Row
            # One that makes no rows of what it reads, kept because making cursors takes longer than some statements.
            self._plain = self._driver.cursor()
            self._plain.row_factory = None
            try:
                self._set_up(writable)
            except sqlite3.Error:
                self._driver.close()
                raise
        self._writable = writable
        self._clock = clock
        self._now_ms: int | None = None
        self._announced: list[object] = []

    def _set_up(self, writable: bool) -> None:
        if writable:
            self._driver.execute("PRAGMA journal_mode = WAL")
            self._driver.execute("PRAGMA synchronous = FULL")
            # A checkpoint costs flushes of its own: under load not every few commits, but every 40 MiB.
            self._driver.execute("PRAGMA wal_autocheckpoint = 10000")
            # Nothing secret is stored in plain text, so what is deleted need not be overwritten.
            self._driver.execute("PRAGMA secure_delete = OFF")
        else:
            # Not for who writes: its own cache has pages ready, mapped ones are looked up and taken apart at every use.
            self._driver.execute("PRAGMA mmap_size = 268435456")
        self._driver.execute("PRAGMA foreign_keys = ON")
        self._driver.execute("PRAGMA cache_size = -65536")

    @property
    def now_ms(self) -> int:
        if self._now_ms is None:
            self._now_ms = self._clock()
        return self._now_ms

    # Spelled out instead of `with _our_errors`: a try costs nothing until it fails, and these are run most.

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        try:
            return self._driver.execute(query.text, parameters).fetchall()
        except sqlite3.Error as error:
            raise _translated(error) from error

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        # Read to the end: a RETURNING statement is complete only then.
        rows = self.all(query, **parameters)
        return rows[0] if rows else None

    def run(self, query: Query, /, **parameters: Any) -> int:
        try:
            return self._driver.execute(query.text, parameters).rowcount
        except sqlite3.Error as error:
            raise _translated(error) from error

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]], /) -> None:
        with _our_errors:
            self._driver.executemany(query.text, rows)

    def values(self, query: Query, /, **parameters: Any) -> list[tuple[Any, ...]]:
        try:
            return self._plain.execute(query.text, parameters).fetchall()
        except sqlite3.Error as error:
            raise _translated(error) from error

    def values_later(self, query: Query, /, **parameters: Any) -> Callable[[], list[tuple[Any, ...]]]:
        rows = self.values(query, **parameters)
        return lambda: rows

    def run_rows(self, query: Query, rows: Iterable[tuple[Any, ...]], /) -> None:
        with _our_errors:
            self._plain.executemany(_numbered(query), rows)

    def announce(self, event: object, /) -> None:
        self._announced.append(event)

    def lock(self, _kind: str, /, *_keys: int | str) -> None:
        """There is one writer: it has everything."""

    # What follows is for whoever opens the transaction, not for domain code.

    def begin(self, *, patient: bool = True) -> None:  # noqa: ARG002 — there is nothing to wait for but the file
        self._now_ms = None
        self._announced = []
        with _our_errors:
            self._driver.execute("BEGIN IMMEDIATE" if self._writable else "BEGIN")

    def arrive(self) -> None:
        """Nothing is ever on its way."""

    def commit(self) -> list[object]:
        """Make the transaction durable; what it announced."""
        with _our_errors:
            self._driver.execute("COMMIT")
        announced, self._announced = self._announced, []
        return announced

    def rollback(self) -> None:
        self._announced = []
        with _our_errors:
            if self._driver.in_transaction:
                self._driver.execute("ROLLBACK")

    @property
    def changes(self) -> int:
        """Grows with every row changed and all that is announced: two equal readings prove that there was neither."""
        return self._driver.total_changes + len(self._announced)

    @property
    def announced(self) -> list[object]:
        return self._announced

    def foreign_commits(self) -> int:
        """Changes when, and only when, another connection has committed."""
        with _our_errors:
            row = self._driver.execute("PRAGMA data_version").fetchone()
        return int(row[0])

    def run_script(self, source: str) -> None:
        """Run several statements in the open transaction (the driver's executescript would commit it first)."""
        with _our_errors:
            for statement in _statements(source):
                self._driver.execute(statement)

    def close(self) -> None:
        # With a statement that is not let go of, the file would stay open behind the driver's back.
        with suppress(sqlite3.ProgrammingError):  # closed before
            self._plain.close()
        self._driver.close()


@lru_cache(maxsize=4096)
def _numbered(query: Query) -> str:
    return numbered(query.text, "?")[0]


class SqliteEngine:
    name = "sqlite"
    is_shared = False
    writers = 1
    readers = 2

    def __init__(self, path: Path, *, clock: Clock = wall_clock_ms) -> None:
        self.path = path
        self._clock = clock

    def connect(self, *, writable: bool) -> SqliteConnection:
        return SqliteConnection(self.path, writable=writable, clock=self._clock)

    def schema(self, source: str) -> str:
        return source

    def channel(self) -> Channel | None:
        """One server has the file to itself."""
        return None


def _statements(source: str) -> Iterator[str]:
    statement = ""
    for line in source.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if re.sub(r"--[^\n]*|/\*(?s:.*?)\*/", "", statement).strip():
        raise ValueError(f"an SQL statement does not end: {statement.strip()[:80]!r}")
