"""The engine for several nodes: PostgreSQL 15 or newer, through psycopg 3.

Writers run at READ COMMITTED: each statement sees the last committed state. They must therefore lock the data that
they decide on: rows (`FOR UPDATE`), or a name (`lock`) if there is no row, or no single row, to lock. Readers have a
snapshot. The clock is the server's; it is read once per transaction, after the first lock is held.

Invariants: a commit counts only when the server has confirmed it. If the connection is lost during a commit, the error
says that the outcome is unknown (CommitUncertain). Otherwise a lost connection affects only its own transaction: the
next one gets a new connection.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import psycopg

from restante.core.errors import BadInput, RestanteError
from restante.database.connection import Row
from restante.database.engine import Channel
from restante.database.errors import (
    CommitUncertain,
    ConnectionRejected,
    DatabaseError,
    DatabaseUnavailable,
    LockHeld,
)
from restante.database.postgres.channel import PostgresChannel
from restante.database.postgres.dialect import ENGINE, translate_query, translate_schema
from restante.database.postgres.errors import is_permanent, translate_error
from restante.database.postgres.session import PendingResult, Session
from restante.database.queries import Query

Clock = Callable[[], int]
T = TypeVar("T")

VERSION_MIN = 150_000
# The URL may override these. A server that disappears silently is noticed within half a minute.
CONNECTION_DEFAULTS = {
    "application_name": "restante",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
    "target_session_attrs": "read-write",
}
# The server has room for this many per connection (default of max_locks_per_transaction).
LOCKS_MAX = 64
# The session defaults are READ COMMITTED and read-write: see `Session.set_up`.
_BEGIN_WRITING = "BEGIN"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_NOW = "CAST(FLOOR(date_part('epoch', clock_timestamp()) * 1000) AS BIGINT)"
_LOCK = "SELECT pg_advisory_xact_lock(key) FROM unnest(CAST($1 AS BIGINT[])) AS key"
# The time is also a setting of the transaction, for statements that are sent before it is known here.
_FIRST_LOCK = f"""
SELECT pg_advisory_xact_lock(key), set_config('restante.now_ms', CAST({_NOW} AS TEXT), true)
FROM unnest(CAST($1 AS BIGINT[])) AS key
"""  # noqa: S608
_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(key) AS is_held FROM unnest(CAST($1 AS BIGINT[])) AS key"


@lru_cache(maxsize=65_536)
def lock_key(kind: str, key: int | str) -> int:
    """The number under which a name is locked. Names that collide wait for each other, which is harmless."""
    return int.from_bytes(hashlib.blake2b(f"{kind}:{key}".encode(), digest_size=8).digest(), signed=True)


class PostgresConnection:
    """One connection, replaced when it is lost, and the transaction that is open on it."""

    engine = ENGINE

    def __init__(self, parameters: Mapping[str, Any], *, writable: bool, clock: Clock | None) -> None:
        self._parameters = parameters
        self._writable = writable
        self._clock = clock
        self._now_ms: int | None = None
        self._commit_events: list[object] = []
        self._changed_rows = 0
        self._changed_rows_at_begin = 0
        self._locked: set[int] = set()
        self._waits_for_locks = True
        self._is_closed = False
        self._is_in_transaction = False
        # The result of the first lock, which also carries the server's time.
        self._first_lock: PendingResult | None = None
        self._session: Session | None = None
        self._is_serving = False
        self._connect()

    def _connect(self) -> None:
        try:
            self._session = Session(self._parameters)
        except psycopg.Error as error:
            error_type = ConnectionRejected if is_permanent(str(error)) else DatabaseUnavailable
            # libpq's messages have several lines.
            raise error_type(f"cannot be reached: {' '.join(str(error).split())}") from error
        try:
            _check_server(self._session)
            self._session.set_up()
            if self._is_serving:
                self._session.limit_transactions()
        except (psycopg.Error, DatabaseError) as error:
            self._drop()
            raise translate_error(error, writable=False) if isinstance(error, psycopg.Error) else error from error

    @property
    def now_ms(self) -> int:
        if self._now_ms is None:
            if self._clock is not None:
                self._now_ms = self._clock()
            else:
                pending = self._send(f"SELECT {_NOW}") if self._first_lock is None else self._first_lock
                self._now_ms = int(self._tuples(pending)[-1][-1])
        return self._now_ms

    @property
    def now_parameter(self) -> int | None:
        is_known_by_server = self._clock is None and self._now_ms is None and self._first_lock is not None
        return None if is_known_by_server else self.now_ms

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        return self._rows(query, parameters, Session.dicts)

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        rows = self.all(query, **parameters)
        return rows[0] if rows else None

    def values(self, query: Query, /, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._rows(query, parameters, Session.tuples)

    def _rows(
        self, query: Query, parameters: Mapping[str, Any], read_rows: Callable[[Session, PendingResult], list[Any]]
    ) -> list[Any]:
        statement = translate_query(query)
        values = [parameters[name] for name in statement.names]
        if not statement.may_change and _contains_nul(values):
            # PostgreSQL stores no NUL in text, so no row can match.
            return []
        pending = self._send(statement.text, values)
        rows = self._wait(lambda session: read_rows(session, pending))
        if statement.may_change:
            self._changed_rows += len(rows)
        return rows

    def prefetch(self, query: Query, /, **parameters: Any) -> Callable[[], list[tuple[Any, ...]]]:
        statement = translate_query(query)
        values = [parameters[name] for name in statement.names]
        if statement.may_change or _contains_nul(values):
            rows = self.values(query, **parameters)
            return lambda: rows
        pending = self._send(statement.text, values)
        return lambda: self._tuples(pending)

    def run(self, query: Query, /, **parameters: Any) -> int:
        statement = translate_query(query)
        pending = self._send(statement.text, [parameters[name] for name in statement.names])
        self._wait(lambda session: session.wait_for(pending))
        if statement.may_change:
            self._changed_rows += pending.row_count
        return pending.row_count

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]], /) -> None:
        names = translate_query(query).names
        self.run_rows(query, (tuple(row[name] for name in names) for row in rows))

    def run_rows(self, query: Query, rows: Iterable[tuple[Any, ...]], /) -> None:
        """Does not wait for the results: an error is raised at the commit, or before."""
        statement, values = translate_query(query), list(rows)
        if not values:
            return
        session = self._require_session()
        # Counted first: if one row cannot be sent, the rows before it already were.
        self._changed_rows += len(values)
        try:
            session.begin_pipeline()
            session.send_many(statement.text, values)
            self._end_without_transaction(session)
        except psycopg.Error as error:
            raise self._handle_error(error, *values) from error

    def add_commit_event(self, event: object, /) -> None:
        self._commit_events.append(event)

    def lock(self, kind: str, *keys: int | str) -> None:
        """Lock the names, in the same order in every transaction.

        LockHeld if the lock is taken and this transaction must not wait: it is shared, and already holds locks or
        changes that others may wait for.
        """
        if not self._writable:
            return
        missing = sorted({lock_key(kind, key) for key in keys} - self._locked)
        if not missing:
            return
        if self._waits_for_locks or (not self._locked and self._changed_rows == self._changed_rows_at_begin):
            # No need to wait for the result: later statements run when the lock is held.
            is_first = self._first_lock is None
            pending = self._send(_FIRST_LOCK if is_first else _LOCK, [_array_of(missing)])
            if is_first:
                self._first_lock = pending
        elif len(self._locked) + len(missing) > LOCKS_MAX or not self._try_lock(missing):
            raise LockHeld(f"another transaction holds the lock of a {kind}")
        self._locked.update(missing)

    def _try_lock(self, missing: Sequence[int]) -> bool:
        return all(is_held for (is_held,) in self._tuples(self._send(_TRY_LOCK, [_array_of(missing)])))

    # EngineConnection: for the code that opens the transaction, not for domain code.

    def begin(self, *, waits_for_locks: bool = True) -> None:
        self._now_ms = None
        self._first_lock = None
        self._commit_events = []
        self._changed_rows_at_begin = self._changed_rows
        self._locked = set()
        self._waits_for_locks = waits_for_locks
        if self._is_closed:
            raise DatabaseError("the connection is closed")
        if self._session is None or self._session.was_lost_while_idle():
            # No transaction was open on it.
            self._drop()
            self._connect()
        self._is_in_transaction = True
        self._send(_BEGIN_WRITING if self._writable else _BEGIN_READING)

    def flush(self) -> None:
        self._wait(Session.sync)

    def commit(self) -> list[object]:
        session = self._require_session()
        self._is_in_transaction = False
        try:
            pending = session.send("COMMIT")
            session.end_pipeline()
        except psycopg.Error as error:
            if session.is_lost:
                self._drop()
                raise CommitUncertain(f"the connection was lost during a commit: {error}".strip()) from error
            raise self._handle_error(error) from error
        if pending.command_tag != b"COMMIT":
            # The server rolls back a transaction in which a statement has failed, even if it is told to commit.
            raise DatabaseError("the transaction was rolled back: one of its statements had failed")
        commit_events, self._commit_events = self._commit_events, []
        return commit_events

    def rollback(self) -> None:
        self._commit_events = []
        self._is_in_transaction = False
        session = self._session
        if session is None:
            return
        try:
            if self._writable:
                session.rollback()
            else:
                # A snapshot has nothing to undo, and after a rollback the driver would prepare all statements anew.
                session.send("COMMIT")
                session.end_pipeline()
        except psycopg.Error:
            # The server rolls back when the connection ends; this one is in an unknown state and is replaced.
            self._drop()

    @property
    def change_count(self) -> int:
        """Counts locked rows, too."""
        return self._changed_rows + len(self._commit_events)

    @property
    def commit_events(self) -> list[object]:
        return self._commit_events

    def foreign_version(self) -> int:
        """Never changes: other nodes publish their commits on the node bus."""
        return 0

    def run_script(self, source: str) -> None:
        try:
            self._require_session().run_script(translate_schema(source))
        except psycopg.Error as error:
            raise self._handle_error(error) from error
        self._changed_rows += 1

    def limit_transactions(self) -> None:
        self._is_serving = True
        try:
            self._require_session().limit_transactions()
        except psycopg.Error as error:
            raise self._handle_error(error) from error

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def _send(self, text: str, values: Sequence[Any] = ()) -> PendingResult:
        session = self._require_session()
        try:
            session.begin_pipeline()
            return session.send(text, values)
        except psycopg.Error as error:
            raise self._handle_error(error, values) from error

    def _tuples(self, pending: PendingResult) -> list[tuple[Any, ...]]:
        return self._wait(lambda session: session.tuples(pending))

    def _wait(self, read: Callable[[Session], T]) -> T:
        session = self._require_session()
        try:
            result = read(session)
            self._end_without_transaction(session)
        except psycopg.Error as error:
            raise self._handle_error(error) from error
        return result

    def _end_without_transaction(self, session: Session) -> None:
        """A statement outside a transaction is a transaction of its own, complete with its result."""
        if not self._is_in_transaction:
            session.end_pipeline()

    def _require_session(self) -> Session:
        if self._session is None:
            raise DatabaseUnavailable("the connection was lost")
        return self._session

    def _handle_error(self, error: psycopg.Error, *rows: Sequence[Any]) -> RestanteError | DatabaseError:
        if isinstance(error, psycopg.DataError) and any(_contains_nul(values) for values in rows):
            return BadInput("text", "no character NUL, which the database cannot store")
        session = self._session
        if session is not None and session.is_lost:
            self._drop()
        elif not self._is_in_transaction:
            self.rollback()
        return translate_error(error, writable=self._writable)

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class PostgresEngine:
    name = ENGINE
    is_shared = True

    def __init__(self, url: str, *, writers: int, readers: int, clock: Clock | None = None) -> None:
        self.writers = writers
        self.readers = readers
        self._clock = clock
        try:
            parameters = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # `from None`: the cause quotes the URL, and with it the password.
            raise DatabaseError("the address of the database is not one that PostgreSQL understands") from None
        self._parameters = {**CONNECTION_DEFAULTS, **parameters}

    def connect(self, *, writable: bool) -> PostgresConnection:
        return PostgresConnection(self._parameters, writable=writable, clock=self._clock)

    def lost_file(self) -> str | None:
        return None

    def checkpoint(self) -> bool:
        """The server's own concern."""
        return True

    def translate_schema(self, source: str) -> str:
        return translate_schema(source)

    def channel(self) -> Channel | None:
        return PostgresChannel(self._parameters)


def _array_of(numbers: Sequence[int]) -> str:
    """An array literal of the server; the driver takes longer to encode one."""
    return f"{{{','.join(map(str, numbers))}}}"


def _contains_nul(values: Sequence[Any]) -> bool:
    for value in values:  # noqa: SIM110, a generator takes longer
        if isinstance(value, str) and "\0" in value:
            return True
    return False


def _check_server(session: Session) -> None:
    if session.version < VERSION_MIN:
        raise DatabaseError(f"PostgreSQL 15 or newer is needed, the server is {session.version // 10_000}")
    if session.encoding != "UTF8":
        raise DatabaseError(f"the database must be encoded in UTF8, it is in {session.encoding}")
