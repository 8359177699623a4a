"""The engine for many nodes: PostgreSQL 15 or newer, through psycopg 3.

Writers read what was last committed, statement by statement, and so must hold what they decide about: rows
(`FOR UPDATE`), or, where there is no row to hold or none that stands for all of it, a name (`lock`). Readers have a
snapshot. The clock is the server's, read once in a transaction and not before its first lock is held.

Must always hold: a commit counts only when the server has said so. One that it could not say, because the connection
was lost meanwhile, is an error that says just this; whatever else a lost connection costs is that transaction alone:
the next one gets a new connection.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import psycopg

from restante.core.errors import BadInput, RestanteError
from restante.database.channel import Channel
from restante.database.connection import Row
from restante.database.errors import (
    CommitUncertain,
    Contended,
    DatabaseError,
    DatabaseRefused,
    DatabaseUnavailable,
    Interfered,
    UniqueViolation,
)
from restante.database.postgres_channel import PostgresChannel
from restante.database.postgres_refusals import is_for_good
from restante.database.postgres_session import Answer, Session
from restante.database.postgres_text import ENGINE, schema_of, statement_of
from restante.database.queries import Query

Clock = Callable[[], int]
T = TypeVar("T")

WRITERS = 4
READERS = 4
VERSION_MIN = 150_000
# What the address may say otherwise. A server that is gone without a word is noticed within half a minute.
CONNECTION_DEFAULTS = {
    "application_name": "restante",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
    "target_session_attrs": "read-write",
}
# As many as the server has room for in every connection (max_locks_per_transaction).
LOCKS_MAX = 64
# As the session is set up: by the last committed, statement by statement, and writing.
_BEGIN_WRITING = "BEGIN"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_NOW = "CAST(FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000) AS BIGINT) AS now_ms"
_LOCK = f"SELECT pg_advisory_xact_lock(key), {_NOW} FROM unnest(CAST($1 AS BIGINT[])) AS key"  # noqa: S608
_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(key) AS is_held FROM unnest(CAST($1 AS BIGINT[])) AS key"


def _translated(error: psycopg.Error, *, writable: bool) -> DatabaseError:
    """What the driver raised, as what the rest of the program knows.

    The server's details are left out: they quote rows.
    """
    said = error.diag.message_primary or str(error)
    state = error.sqlstate or ""
    if isinstance(error, psycopg.errors.UniqueViolation):
        return UniqueViolation(error.diag.constraint_name or said)
    if state.startswith("40"):
        return Interfered(said)
    # A server that takes no writes now: it stands by for another one.
    if isinstance(error, psycopg.OperationalError) or (writable and state == "25006"):
        return DatabaseUnavailable(said)
    return DatabaseError(said)


@lru_cache(maxsize=65_536)
def lock_key(kind: str, key: int | str) -> int:
    """The number that a name is locked under. Two names with one number would wait for each other, and no more."""
    return int.from_bytes(hashlib.blake2b(f"{kind}:{key}".encode(), digest_size=8).digest(), signed=True)


class PostgresConnection:
    """One connection, replaced when it was lost, with the transaction that is open on it."""

    engine = ENGINE

    def __init__(self, parameters: Mapping[str, Any], *, writable: bool, clock: Clock | None) -> None:
        self._parameters = parameters
        self._writable = writable
        self._clock = clock
        self._now_ms: int | None = None
        self._announced: list[object] = []
        self._changes = 0
        self._changes_at_begin = 0
        self._locked: set[int] = set()
        self._is_patient = True
        self._is_closed = False
        self._is_begun = False
        # What the first lock was told the time with, until somebody asks for it.
        self._moment: Answer | None = None
        self._session: Session | None = None
        self._connect()

    def _connect(self) -> None:
        try:
            self._session = Session(self._parameters)
        except psycopg.Error as error:
            refused = DatabaseRefused if is_for_good(str(error)) else DatabaseUnavailable
            # libpq gives its advice on a line of its own.
            raise refused(f"cannot be reached: {' '.join(str(error).split())}") from error
        try:
            _refuse_unfit(self._session)
            self._session.set_up()
        except (psycopg.Error, DatabaseError) as error:
            self._drop()
            raise _translated(error, writable=False) if isinstance(error, psycopg.Error) else error from error

    @property
    def now_ms(self) -> int:
        if self._now_ms is None:
            if self._clock is not None:
                self._now_ms = self._clock()
            else:
                moment = self._send(f"SELECT {_NOW}") if self._moment is None else self._moment
                self._now_ms = int(self._tuples(moment)[-1][-1])
        return self._now_ms

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        return self._rows(query, parameters, Session.dicts)

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        rows = self.all(query, **parameters)
        return rows[0] if rows else None

    def values(self, query: Query, /, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._rows(query, parameters, Session.tuples)

    def _rows(
        self, query: Query, parameters: Mapping[str, Any], form: Callable[[Session, Answer], list[Any]]
    ) -> list[Any]:
        statement = statement_of(query)
        values = [parameters[name] for name in statement.names]
        if not statement.may_change and _holds_nul(values):
            # No text here holds that character, so nothing is equal to one that does.
            return []
        answer = self._send(statement.text, values)
        rows = self._answered(lambda session: form(session, answer))
        if statement.may_change:
            self._changes += len(rows)
        return rows

    def values_later(self, query: Query, /, **parameters: Any) -> Callable[[], list[tuple[Any, ...]]]:
        statement = statement_of(query)
        values = [parameters[name] for name in statement.names]
        if statement.may_change or _holds_nul(values):
            rows = self.values(query, **parameters)
            return lambda: rows
        answer = self._send(statement.text, values)
        return lambda: self._tuples(answer)

    def run(self, query: Query, /, **parameters: Any) -> int:
        statement = statement_of(query)
        answer = self._send(statement.text, [parameters[name] for name in statement.names])
        self._answered(lambda session: session.arrived(answer))
        if statement.may_change:
            self._changes += answer.changed
        return answer.changed

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]], /) -> None:
        names = statement_of(query).names
        self.run_rows(query, (tuple(row[name] for name in names) for row in rows))

    def run_rows(self, query: Query, rows: Iterable[tuple[Any, ...]], /) -> None:
        """Nobody waits for what they have changed: what is wrong with them shows at the commit, or before."""
        statement, values = statement_of(query), list(rows)
        if not values:
            return
        session = self._opened()
        # Counted first: one that cannot be sent has others before it, which were.
        self._changes += len(values)
        try:
            session.open()
            session.send_many(statement.text, values)
            self._end_if_alone(session)
        except psycopg.Error as error:
            raise self._failed(error, *values) from error

    def announce(self, event: object, /) -> None:
        self._announced.append(event)

    def lock(self, kind: str, *keys: int | str) -> None:
        """Wait for the names, in an order that is everybody's. Whoever holds something that others may wait for, and
        shares the transaction with others, does not wait: Contended."""
        if not self._writable:
            return
        wanted = sorted({lock_key(kind, key) for key in keys} - self._locked)
        if not wanted:
            return
        if self._is_patient or (not self._locked and self._changes == self._changes_at_begin):
            # Not waited for: what is sent behind it is done when it is held.
            held = self._send(_LOCK, [_list_of(wanted)])
            if self._moment is None:
                self._moment = held
        elif len(self._locked) + len(wanted) > LOCKS_MAX or not self._try_lock(wanted):
            raise Contended(f"another transaction works on a {kind}")
        self._locked.update(wanted)

    def _try_lock(self, wanted: Sequence[int]) -> bool:
        return all(is_held for (is_held,) in self._tuples(self._send(_TRY_LOCK, [_list_of(wanted)])))

    # What follows is for whoever opens the transaction, not for domain code.

    def begin(self, *, patient: bool = True) -> None:
        self._now_ms = None
        self._moment = None
        self._announced = []
        self._changes_at_begin = self._changes
        self._locked = set()
        self._is_patient = patient
        if self._is_closed:
            raise DatabaseError("the connection is closed")
        if self._session is None or self._session.is_gone():
            # It was lost while nobody used it: nothing had begun on it.
            self._drop()
            self._connect()
        self._is_begun = True
        self._send(_BEGIN_WRITING if self._writable else _BEGIN_READING)

    def arrive(self) -> None:
        self._answered(Session.arrive)

    def commit(self) -> list[object]:
        """Make the transaction durable; what it announced."""
        session = self._opened()
        self._is_begun = False
        try:
            answer = session.send("COMMIT")
            session.end()
        except psycopg.Error as error:
            if session.is_lost:
                self._drop()
                raise CommitUncertain(f"the connection was lost during a commit: {error}".strip()) from error
            raise self._failed(error) from error
        if answer.said != b"COMMIT":
            # The server ends a transaction in which a statement has failed, whatever it was asked for.
            raise DatabaseError("the transaction was rolled back: one of its statements had failed")
        announced, self._announced = self._announced, []
        return announced

    def rollback(self) -> None:
        self._announced = []
        self._is_begun = False
        session = self._session
        if session is None:
            return
        try:
            if self._writable:
                session.undo()
            else:
                # A snapshot has nothing to undo; and for the driver a rollback is a reason to prepare all anew.
                session.send("COMMIT")
                session.end()
        except psycopg.Error:
            # The server rolls back what it has lost touch with; a connection that cannot be trusted is replaced.
            self._drop()

    @property
    def changes(self) -> int:
        """Grows with every row changed or held and all that is announced: two equal readings prove that there was
        neither."""
        return self._changes + len(self._announced)

    @property
    def announced(self) -> list[object]:
        return self._announced

    def foreign_commits(self) -> int:
        """Never changes: other nodes tell what their commits have changed (`notices`)."""
        return 0

    def run_script(self, source: str) -> None:
        """Run several statements in the open transaction."""
        try:
            self._opened().run_script(schema_of(source))
        except psycopg.Error as error:
            raise self._failed(error) from error
        self._changes += 1

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def _send(self, text: str, values: Sequence[Any] = ()) -> Answer:
        session = self._opened()
        try:
            session.open()
            return session.send(text, values)
        except psycopg.Error as error:
            raise self._failed(error, values) from error

    def _tuples(self, answer: Answer) -> list[tuple[Any, ...]]:
        return self._answered(lambda session: session.tuples(answer))

    def _answered(self, answer_of: Callable[[Session], T]) -> T:
        session = self._opened()
        try:
            answered = answer_of(session)
            self._end_if_alone(session)
        except psycopg.Error as error:
            raise self._failed(error) from error
        return answered

    def _end_if_alone(self, session: Session) -> None:
        """What is sent while no transaction is open is one by itself, over with its answer."""
        if not self._is_begun:
            session.end()

    def _opened(self) -> Session:
        if self._session is None:
            raise DatabaseUnavailable("the connection was lost")
        return self._session

    def _failed(self, error: psycopg.Error, *rows: Sequence[Any]) -> RestanteError | DatabaseError:
        if isinstance(error, psycopg.DataError) and any(_holds_nul(values) for values in rows):
            return BadInput("text", "no character NUL, which the database cannot keep")
        session = self._session
        if session is not None and session.is_lost:
            self._drop()
        elif not self._is_begun:
            self.rollback()
        return _translated(error, writable=self._writable)

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class PostgresEngine:
    name = ENGINE
    is_shared = True

    def __init__(self, url: str, *, writers: int = WRITERS, readers: int = READERS, clock: Clock | None = None) -> None:
        self.writers = writers
        self.readers = readers
        self._clock = clock
        try:
            said = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # Not its cause: that quotes the address, and with it the password.
            raise DatabaseError("the address of the database is not one that PostgreSQL understands") from None
        self._parameters = {**CONNECTION_DEFAULTS, **said}

    def connect(self, *, writable: bool) -> PostgresConnection:
        return PostgresConnection(self._parameters, writable=writable, clock=self._clock)

    def schema(self, source: str) -> str:
        return schema_of(source)

    def channel(self) -> Channel | None:
        return PostgresChannel(self._parameters)


def _list_of(numbers: Sequence[int]) -> str:
    """As the server reads a list; the driver takes longer to write one."""
    return f"{{{','.join(map(str, numbers))}}}"


def _holds_nul(values: Sequence[Any]) -> bool:
    return any(isinstance(value, str) and "\0" in value for value in values)


def _refuse_unfit(session: Session) -> None:
    if session.version < VERSION_MIN:
        raise DatabaseError(f"PostgreSQL 15 or newer is needed, the server is {session.version // 10_000}")
    if session.encoding != "UTF8":
        raise DatabaseError(f"the database must be encoded in UTF8, it is in {session.encoding}")
