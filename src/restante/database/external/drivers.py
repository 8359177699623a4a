"""The drivers of external databases: how to connect, read the clock, and run an exclusive transaction.

All transactions run at READ COMMITTED. A claim must see the latest commits; under InnoDB's stricter default it would
also lock the gaps that the application inserts into.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from restante.database.errors import DatabaseError, DatabaseUnavailable

CONNECT_SECONDS = 5
RESPONSE_SECONDS = 30
LOCK_SECONDS = 5
_LOCK_NAME = "restante device_update_outbox"

# The purpose of a transaction: to read, to write, or to write while no other exclusive transaction runs.
TransactionMode = Literal["read", "write", "exclusive"]


@dataclass(frozen=True, slots=True)
class Driver:
    engine: str
    connect: Callable[[str], Any]
    # The format of a parameter, with {} for its name.
    placeholder: str
    # The query for the database's clock; None if that is the clock of this machine.
    clock: str | None
    begin: Callable[[Any, TransactionMode], None]
    release_exclusive: Callable[[Any, TransactionMode], None]
    errors: Callable[[], tuple[type[Exception], tuple[type[Exception], ...]]]

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        all_errors, unavailable = self.errors()
        try:
            yield
        except unavailable as error:
            raise DatabaseUnavailable(_message(error)) from None
        except all_errors as error:
            raise DatabaseError(_message(error)) from None


class InvalidUrl(ValueError):
    """The URL does not name a database that can be connected to."""


def options_of(url: str, known: frozenset[str]) -> dict[str, str]:
    """The query parameters of the URL, without `name`. InvalidUrl for an unknown one."""
    options = dict(parse_qsl(urlsplit(url).query, strict_parsing=bool(urlsplit(url).query)))
    options.pop("name", None)
    unknown = sorted(set(options) - known)
    if unknown:
        raise InvalidUrl(f"there is no option {unknown[0]}; expected one of: name, {', '.join(sorted(known))}")
    return options


POSTGRES_OPTIONS = frozenset(["host", "sslmode", "sslrootcert", "sslcert", "sslkey"])
MYSQL_OPTIONS = frozenset(["unix_socket", "ssl_ca", "ssl_cert", "ssl_key"])
SQLITE_OPTIONS: frozenset[str] = frozenset()


def postgres_parameters(url: str) -> dict[str, Any]:
    """The connection parameters for the driver."""
    parts = urlsplit(url)
    options: dict[str, Any] = {"host": parts.hostname, **options_of(url, POSTGRES_OPTIONS)}
    return {
        "port": parts.port or 5432,
        "user": unquote(parts.username or "") or None,
        "password": unquote(parts.password or "") or None,
        "dbname": unquote(parts.path[1:]),
        "connect_timeout": CONNECT_SECONDS,
        "tcp_user_timeout": RESPONSE_SECONDS * 1000,
        "application_name": "restante",
        **{name: value for name, value in options.items() if value},
    }


def _connect_postgres(url: str) -> Any:
    # Drivers are imported when needed: a server without such a database does not load them.
    import psycopg
    from psycopg.rows import dict_row

    conn = psycopg.connect(
        **postgres_parameters(url),
        options=f"-c statement_timeout={RESPONSE_SECONDS * 1000} -c lock_timeout={LOCK_SECONDS * 1000}",
        row_factory=dict_row,
        # Parameters are inserted on the client side: NULL then needs no type, and lists of any length no separate plan.
        cursor_factory=psycopg.ClientCursor,
        prepare_threshold=None,
    )
    conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    return conn


def _begin_postgres(conn: Any, mode: TransactionMode) -> None:
    # The driver opens the transaction with its first statement.
    if mode == "exclusive":
        conn.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (_LOCK_NAME,))


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
        read_timeout=RESPONSE_SECONDS,
        write_timeout=RESPONSE_SECONDS,
        cursorclass=DictCursor,
        # Count the rows that a statement matched, as the other engines do, not only those that it changed.
        client_flag=CLIENT.FOUND_ROWS,
        **options,
    )
    cursor = conn.cursor()
    cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    cursor.execute("SET SESSION innodb_lock_wait_timeout = %s", (LOCK_SECONDS,))
    return conn


def _begin_mysql(conn: Any, mode: TransactionMode) -> None:
    if mode == "exclusive":
        cursor = conn.cursor()
        cursor.execute("SELECT GET_LOCK(CONCAT(LEFT(DATABASE(), 30), ' ', %s), %s) AS got", (_LOCK_NAME, LOCK_SECONDS))
        if cursor.fetchone()["got"] != 1:
            raise DatabaseUnavailable("another dispatcher is claiming")
    conn.begin()


def _release_mysql(conn: Any, mode: TransactionMode) -> None:
    """After the commit, so that the next claim sees the rows that this one claimed."""
    if mode == "exclusive":
        conn.cursor().execute("SELECT RELEASE_LOCK(CONCAT(LEFT(DATABASE(), 30), ' ', %s))", (_LOCK_NAME,))


def sqlite_path(url: str) -> Path:
    """The absolute path of the file. InvalidUrl if the URL has a host, or names no file."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or parts.fragment or path == "" or path.endswith("/"):
        raise InvalidUrl("a SQLite URL names a file: expected sqlite:///absolute/path or sqlite:relative/path")
    # Other programs write an absolute path with a fourth slash.
    return Path("/" + path.lstrip("/") if path.startswith("/") else path).absolute()


def _connect_sqlite(url: str) -> Any:
    options_of(url, SQLITE_OPTIONS)
    path = sqlite_path(url)
    if not path.is_file():
        raise DatabaseUnavailable(f"there is no file {path}")
    conn = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
    )
    conn.row_factory = sqlite3.Row
    return conn


def _begin_sqlite(conn: Any, mode: TransactionMode) -> None:
    # SQLite has one writer at a time, and the application is one of the writers.
    conn.execute("BEGIN" if mode == "read" else "BEGIN IMMEDIATE")


def _do_nothing(_conn: Any, _mode: TransactionMode) -> None:
    return None


def _postgres_errors() -> tuple[type[Exception], tuple[type[Exception], ...]]:
    import psycopg

    return psycopg.Error, (psycopg.OperationalError, psycopg.InterfaceError)


def _mysql_errors() -> tuple[type[Exception], tuple[type[Exception], ...]]:
    import pymysql

    return pymysql.MySQLError, (pymysql.err.OperationalError, pymysql.err.InterfaceError)


def _sqlite_errors() -> tuple[type[Exception], tuple[type[Exception], ...]]:
    return sqlite3.Error, (sqlite3.OperationalError,)


def _message(error: Exception) -> str:
    """The message of the driver, on one line. Drivers quote user and host, never the password."""
    return " ".join(str(error).split()) or type(error).__name__


DRIVERS = {
    "postgres": Driver(
        "postgres",
        _connect_postgres,
        "%({})s",
        "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now_ms",
        _begin_postgres,
        _do_nothing,
        _postgres_errors,
    ),
    "mysql": Driver(
        "mysql",
        _connect_mysql,
        "%({})s",
        "SELECT CAST(FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000) AS SIGNED) AS now_ms",
        _begin_mysql,
        _release_mysql,
        _mysql_errors,
    ),
    "sqlite": Driver("sqlite", _connect_sqlite, ":{}", None, _begin_sqlite, _do_nothing, _sqlite_errors),
}
