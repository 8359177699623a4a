"""Counts the work of statements, so that tests can compare it for tables of different sizes: instructions of SQLite's
virtual machine, or pages that PostgreSQL reads."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any, Concatenate, ParamSpec, cast

from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine

P = ParamSpec("P")
_Statement = tuple[Query, dict[str, Any]]


class _Recording:
    """A connection that keeps the statements that read through it."""

    def __init__(self, conn: Connection, statements: list[_Statement]) -> None:
        self._conn = conn
        self._statements = statements

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        self._statements.append((query, parameters))
        return self._conn.all(query, **parameters)

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        self._statements.append((query, parameters))
        return self._conn.one(query, **parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)


class StatementWork:
    def __init__(self, engine: Engine, database: Database) -> None:
        self._engine = engine
        self._database = database

    def of(self, read: Callable[Concatenate[Connection, P], object], *args: P.args, **kwargs: P.kwargs) -> int:
        """The work of all statements of the function, in one read."""
        statements: list[_Statement] = []
        self._database.read_now(lambda conn: read(cast(Connection, _Recording(conn, statements)), *args, **kwargs))
        assert statements
        measure = self._instructions if isinstance(self._engine, SqliteEngine) else self._pages
        return sum(measure(query, parameters) for query, parameters in statements)

    def _instructions(self, query: Query, parameters: dict[str, Any]) -> int:
        assert isinstance(self._engine, SqliteEngine)
        found = 0

        def add() -> None:
            nonlocal found
            found += 1

        with closing(sqlite3.connect(self._engine.path)) as conn:
            conn.set_progress_handler(add, 1)
            conn.execute(query.text, parameters).fetchall()
        return found

    def _pages(self, query: Query, parameters: dict[str, Any]) -> int:
        explained = Query("plan", f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query.for_engine('postgres')}")
        [[output]] = self._database.read_now(lambda conn: conn.values(explained, **parameters))
        plan = output[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
