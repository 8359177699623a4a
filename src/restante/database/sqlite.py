"""The embedded engine: one SQLite file in WAL mode. Every commit is flushed to disk before it returns.

One connection writes (`BEGIN IMMEDIATE`). Any number of connections read, each from a snapshot. SQLite runs in this
process, so the database's clock is this machine's clock (`clocks/steady_clock.py`).
"""

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from restante.database.connection import Row
from restante.database.engine import Channel
from restante.database.errors import DatabaseError, DatabaseUnavailable, UniqueViolation
from restante.database.queries import Query, number_parameters

Clock = Callable[[], int]
BUSY_SECONDS = 10.0
# How long a checkpoint waits for the snapshots of other processes.
CHECKPOINT_SECONDS = 1.0
_UNAVAILABLE = (
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CORRUPT,
)

# For types without a registered adapter the driver searches one at every use, which takes longer than the binding.
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), lambda none: none)


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def _translate_error(error: sqlite3.Error) -> DatabaseError:
    """Translate a driver error into one of ours."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY):
        return UniqueViolation(str(error).removeprefix("UNIQUE constraint failed: "))
    if code is not None and code & 0xFF in _UNAVAILABLE:
        return DatabaseUnavailable(str(error))
    return DatabaseError(str(error))


class _TranslateErrors:
    """Context manager that translates driver exceptions. A class, because a generator is slower."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise _translate_error(error) from error


_translate_errors = _TranslateErrors()


class SqliteConnection:
    """One driver connection, and the transaction that is open on it."""

    engine = "sqlite"

    def __init__(self, path: Path, *, writable: bool, clock: Clock, file: "_DatabaseFile") -> None:
        mode = "rwc" if writable else "ro"
        with _translate_errors:
            self._driver = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
            )
            self._driver.row_factory = sqlite3.Row
            # A cursor that returns plain tuples. It is kept because making a cursor takes longer than some statements.
            self._tuple_cursor = self._driver.cursor()
            self._tuple_cursor.row_factory = None
            try:
                self._set_up(writable)
            except sqlite3.Error:
                self._driver.close()
                raise
        self._writable = writable
        self._clock = clock
        self._file = file
        self._lost_file: str | None = None
        self._now_ms: int | None = None
        self._commit_events: list[object] = []

    def _set_up(self, writable: bool) -> None:
        if writable:
            self._driver.execute("PRAGMA journal_mode = WAL")
            self._driver.execute("PRAGMA synchronous = FULL")
            # Every checkpoint flushes to disk: run one per 40 MiB of WAL instead of every few commits.
            self._driver.execute("PRAGMA wal_autocheckpoint = 10000")
            # No secret is stored in plain text, so deleted content need not be overwritten.
            self._driver.execute("PRAGMA secure_delete = OFF")
        else:
            # Only for readers: the writer is faster with its own page cache than with mapped pages.
            self._driver.execute("PRAGMA mmap_size = 268435456")
        self._driver.execute("PRAGMA foreign_keys = ON")
        self._driver.execute("PRAGMA cache_size = -65536")

    @property
    def now_ms(self) -> int:
        if self._now_ms is None:
            self._now_ms = self._clock()
        return self._now_ms

    @property
    def now_parameter(self) -> int:
        return self.now_ms

    # The hottest methods use try instead of `with _translate_errors`: it costs nothing until it fails.

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        try:
            return self._driver.execute(query.text, parameters).fetchall()
        except sqlite3.Error as error:
            raise _translate_error(error) from error

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        # Read all rows: a RETURNING statement is complete only then.
        rows = self.all(query, **parameters)
        return rows[0] if rows else None

    def run(self, query: Query, /, **parameters: Any) -> int:
        try:
            return self._driver.execute(query.text, parameters).rowcount
        except sqlite3.Error as error:
            raise _translate_error(error) from error

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]], /) -> None:
        with _translate_errors:
            self._driver.executemany(query.text, rows)

    def values(self, query: Query, /, **parameters: Any) -> list[tuple[Any, ...]]:
        try:
            return self._tuple_cursor.execute(query.text, parameters).fetchall()
        except sqlite3.Error as error:
            raise _translate_error(error) from error

    def prefetch(self, query: Query, /, **parameters: Any) -> Callable[[], list[tuple[Any, ...]]]:
        rows = self.values(query, **parameters)
        return lambda: rows

    def run_rows(self, query: Query, rows: Iterable[tuple[Any, ...]], /) -> None:
        with _translate_errors:
            self._tuple_cursor.executemany(_numbered_text(query), rows)

    def add_commit_event(self, event: object, /) -> None:
        self._commit_events.append(event)

    def lock(self, _kind: str, /, *_keys: int | str) -> None:
        """The only writer holds everything."""

    # EngineConnection: for the code that opens the transaction, not for domain code.

    def begin(self, *, waits_for_locks: bool = True) -> None:  # noqa: ARG002 — the only lock is that of the file
        self._now_ms = None
        self._commit_events = []
        if self._lost_file is not None:
            # SQLite would write to the file that was opened, which has no path any more.
            raise DatabaseUnavailable(self._lost_file)
        with _translate_errors:
            self._driver.execute("BEGIN IMMEDIATE" if self._writable else "BEGIN")

    def flush(self) -> None:
        """Every statement has run when its call returns."""

    def commit(self) -> list[object]:
        with _translate_errors:
            self._driver.execute("COMMIT")
        commit_events, self._commit_events = self._commit_events, []
        return commit_events

    def rollback(self) -> None:
        self._commit_events = []
        with _translate_errors:
            if self._driver.in_transaction:
                self._driver.execute("ROLLBACK")

    @property
    def change_count(self) -> int:
        return self._driver.total_changes + len(self._commit_events)

    @property
    def commit_events(self) -> list[object]:
        return self._commit_events

    def foreign_version(self) -> int:
        """Called about every tenth of a second by the writer; notices a lost file, too."""
        self._lost_file = self._file.lost()
        with _translate_errors:
            row = self._driver.execute("PRAGMA data_version").fetchone()
        return int(row[0])

    def limit_transactions(self) -> None:
        """The only other users are commands, which wait for BUSY_SECONDS."""

    def run_script(self, source: str) -> None:
        """Run statement by statement: the driver's executescript would commit the open transaction first."""
        with _translate_errors:
            for statement in _statements(source):
                self._driver.execute(statement)

    def checkpoint(self) -> bool:
        """Move the WAL into the database file. False if the snapshot of another process keeps a part of it."""
        with _translate_errors:
            self._driver.execute(f"PRAGMA busy_timeout = {round(CHECKPOINT_SECONDS * 1000)}")
            is_busy, _wal_pages, _moved_pages = self._driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not is_busy

    def close(self) -> None:
        # An open cursor would keep the file open after the connection is closed.
        with suppress(sqlite3.ProgrammingError):  # already closed
            self._tuple_cursor.close()
        self._driver.close()


@lru_cache(maxsize=4096)
def _numbered_text(query: Query) -> str:
    return number_parameters(query.text, "?")[0]


class _DatabaseFile:
    """The file that was opened first: one that has its name later may be another."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity: tuple[int, int] | None = None

    def opened(self) -> None:
        if self._identity is None:
            self._identity = _identity_of(self._path)

    def lost(self) -> str | None:
        if self._identity is None:
            return None
        try:
            is_same = _identity_of(self._path) == self._identity
        except OSError as error:
            return f"the database file is gone: {error}"
        return None if is_same else f"the database file {self._path} was replaced by another file"


def _identity_of(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


class SqliteEngine:
    name = "sqlite"
    is_shared = False
    writers = 1
    readers = 2

    def __init__(self, path: Path, *, clock: Clock = wall_clock_ms) -> None:
        self.path = path
        self.clock = clock
        self._file = _DatabaseFile(path)

    def connect(self, *, writable: bool) -> SqliteConnection:
        conn = SqliteConnection(self.path, writable=writable, clock=self.clock, file=self._file)
        self._file.opened()
        return conn

    def lost_file(self) -> str | None:
        return self._file.lost()

    def checkpoint(self) -> bool:
        """Move the WAL into the database file, so that a copy of that file alone has all data.

        SQLite does this by itself only when the last connection of all processes ends, and only if that one may write.
        """
        conn = self.connect(writable=True)
        try:
            return conn.checkpoint()
        finally:
            conn.close()

    def translate_schema(self, source: str) -> str:
        return source

    def channel(self) -> Channel | None:
        """Only one server uses the file."""
        return None


def _statements(source: str) -> Iterator[str]:
    statement = ""
    for line in source.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if re.sub(r"--[^\n]*|/\*(?s:.*?)\*/", "", statement).strip():
        raise ValueError(f"unterminated SQL statement: {statement.strip()[:80]!r}")
