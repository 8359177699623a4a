"""How each kind of outside database is connected to, asked the time, and kept to oneself for a moment.

Everybody runs at READ COMMITTED: a claim must see what was committed a moment ago, and under InnoDB's stricter
default it would lock the gaps that the application wants to insert into.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from restante.database.errors import DatabaseError, DatabaseUnavailable

CONNECT_SECONDS = 5
ANSWER_SECONDS = 30
LOCK_SECONDS = 5
_ALONE = "restante device_update_outbox"

# What a transaction is for: to look, to change something, or to do so while nobody else does who asks for it.
How = Literal["read", "write", "alone"]


class Driver(NamedTuple):
    engine: str
    connect: Callable[[str], Any]
    # How a parameter is spelled, as a format of its name.
    placeholder: str
    # Asks the database's clock; None where that is this machine's.
    clock: str | None
    begin: Callable[[Any, How], None]
    let_others: Callable[[Any, How], None]
    errors: Callable[[], tuple[type[Exception], tuple[type[Exception], ...]]]

    @contextmanager
    def our_errors(self) -> Iterator[None]:
        every, out_of_reach = self.errors()
        try:
            yield
        except out_of_reach as error:
            raise DatabaseUnavailable(_said(error)) from None
        except every as error:
            raise DatabaseError(_said(error)) from None


class Refused(ValueError):
    """The URL is none that can be connected to."""


def options_of(url: str, known: frozenset[str]) -> dict[str, str]:
    """The options behind the question mark; Refused for one nobody knows."""
    options = dict(parse_qsl(urlsplit(url).query, strict_parsing=bool(urlsplit(url).query)))
    options.pop("name", None)
    unknown = sorted(set(options) - known)
    if unknown:
        raise Refused(f"there is no option {unknown[0]}; there are name, {', '.join(sorted(known))}")
    return options


POSTGRES_OPTIONS = frozenset(["host", "sslmode", "sslrootcert", "sslcert", "sslkey"])
MYSQL_OPTIONS = frozenset(["unix_socket", "ssl_ca", "ssl_cert", "ssl_key"])
SQLITE_OPTIONS: frozenset[str] = frozenset()


def postgres_parameters(url: str) -> dict[str, Any]:
    """What the driver is told to connect to it."""
    parts = urlsplit(url)
    options: dict[str, Any] = {"host": parts.hostname, **options_of(url, POSTGRES_OPTIONS)}
    return {
        "port": parts.port or 5432,
        "user": unquote(parts.username or "") or None,
        "password": unquote(parts.password or "") or None,
        "dbname": unquote(parts.path[1:]),
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": ANSWER_SECONDS * 1000,
        "application_name": "restante",
        **{name: value for name, value in options.items() if value},
    }


def _connect_postgres(url: str) -> Any:
    # Imported when needed, here and below: whoever has no such database need not wait for its driver.
    import psycopg
    from psycopg.rows import dict_row

    conn = psycopg.connect(
        **postgres_parameters(url),
        options=f"-c statement_timeout={ANSWER_SECONDS * 1000} -c lock_timeout={LOCK_SECONDS * 1000}",
        row_factory=dict_row,
        # Parameters are put in on this side: a NULL needs no type then, and a list of any length no plan of its own.
        cursor_factory=psycopg.ClientCursor,
        prepare_threshold=None,
    )
    conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return conn


def _begin_postgres(conn: Any, how: How) -> None:
    # The driver opens the transaction with its first statement.
    if how == "alone":
        conn.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (_ALONE,))


def _connect_mysql(url: str) -> Any:
    import pymysql
    from pymysql.constants import CLIENT
    from pymysql.cursors import DictCursor

    parts = urlsplit(url)
    options: dict[str, Any] = options_of(url, MYSQL_OPTIONS)
    conn = pymysql.connect(
        host=parts.hostname or "localhost",
        port=parts.port or 3306,
        user=unquote(parts.username or "") or None,
        password=unquote(parts.password or ""),
        database=unquote(parts.path[1:]),
        charset="utf8mb4",
        connect_timeout=CONNECT_SECONDS,
        read_timeout=ANSWER_SECONDS,
        write_timeout=ANSWER_SECONDS,
        cursorclass=DictCursor,
        # Rows that a statement found, as the other engines count, not only those it made different.
        client_flag=CLIENT.FOUND_ROWS,
        **options,
    )
    cursor = conn.cursor()
    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (LOCK_SECONDS,))
    return conn


def _begin_mysql(conn: Any, how: How) -> None:
    if how == "alone":
        cursor = conn.cursor()
        cursor.execute("SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 30), ' ', %s), %s) AS got", (_ALONE, LOCK_SECONDS))
        if cursor.fetchone()["got"] != 1:
            raise DatabaseUnavailable("another dispatcher is claiming")
    conn.begin()


def _let_others_mysql(conn: Any, how: How) -> None:
    """Only after the commit: who claims next must see what was claimed."""
    if how == "alone":
        conn.cursor().execute("SELECT RELEASE_LOCK(CONCAT(LEFT(DATABASE(), 30), ' ', %s))", (_ALONE,))


def _connect_sqlite(url: str) -> Any:
    options_of(url, SQLITE_OPTIONS)
    path = unquote(urlsplit(url).path)
    conn = sqlite3.connect(
        f"file:{path}?mode=rw", uri=True, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
    )
    conn.row_factory = sqlite3.Row
    return conn


def _begin_sqlite(conn: Any, how: How) -> None:
    # One writer at a time is all that SQLite has; and the application is one of them.
    conn.execute("BEGIN" if how == "read" else "BEGIN IMMEDIATE")


def _nothing(_conn: Any, _how: How) -> None:
    return None


def _postgres_errors() -> tuple[type[Exception], tuple[type[Exception], ...]]:
    import psycopg

    return psycopg.Error, (psycopg.OperationalError, psycopg.InterfaceError)


def _mysql_errors() -> tuple[type[Exception], tuple[type[Exception], ...]]:
    import pymysql

    return pymysql.MySQLError, (pymysql.err.OperationalError, pymysql.err.InterfaceError)


def _sqlite_errors() -> tuple[type[Exception], tuple[type[Exception], ...]]:
    return sqlite3.Error, (sqlite3.OperationalError,)


def _said(error: Exception) -> str:
    """What the driver said, on one line. Drivers name user and host, never the password."""
    return " ".join(str(error).split()) or type(error).__name__


DRIVERS = {
    "postgres": Driver(
        "postgres",
        _connect_postgres,
        "%({})s",
        "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now_ms",
        _begin_postgres,
        _nothing,
        _postgres_errors,
    ),
    "mysql": Driver(
        "mysql",
        _connect_mysql,
        "%({})s",
        "SELECT CAST(FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED) AS now_ms",
        _begin_mysql,
        _let_others_mysql,
        _mysql_errors,
    ),
    "sqlite": Driver("sqlite", _connect_sqlite, ":{}", None, _begin_sqlite, _nothing, _sqlite_errors),
}
