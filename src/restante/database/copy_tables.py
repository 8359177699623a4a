"""Copies a database into one of another engine, table by table. One of the two is embedded. A copy can be resumed.

    source, in key order ──▶ target: a chunk of rows and the progress, in one transaction ──▶ comparison of both

A copy reads one snapshot of the source. To resume it, the caller makes sure that nothing has written to the source
meanwhile. This module does not know what the tables mean.

Invariants: `copy_progress` records exactly the rows that were copied. A target that holds anything but an unfinished
copy is not touched. A copy is finished only when every table has the same number of rows and the same digest on both
sides.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import msgspec

from restante.database.connection import Connection, Row
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError
from restante.database.queries import Query, queries_beside

SQL = queries_beside(__file__)

CHUNK_ROWS = 1000
# About the database itself: these are not copied.
_OWN_TABLES = frozenset(["schema_migrations", "copy_progress"])
# The migrations insert rows here: a target with such rows is still empty.
_FILLED_BY_MIGRATIONS = frozenset(["revisions"])
_DIGEST_MODULUS = 2**256


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def page(self, *, after_key: bool) -> Query:
        """A query for the next rows, in key order."""
        key = ", ".join(_quoted(self.key))
        where = f" WHERE ({key}) > ({', '.join(f':key_{place}' for place in range(len(self.key)))})"
        return Query(
            f"page_of_{self.name}",
            f"SELECT {', '.join(_quoted(self.columns))} FROM {self.name}{where if after_key else ''}"  # noqa: S608 — our own schema's names
            f" ORDER BY {key} LIMIT :chunk",
        )

    def insert(self) -> Query:
        values = ", ".join(f":{column}" for column in self.columns)
        return Query(
            f"insert_into_{self.name}",
            f"INSERT INTO {self.name} ({', '.join(_quoted(self.columns))}) VALUES ({values})",  # noqa: S608
        )


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of one table: rows copied and, after that, rows compared."""

    table: str
    copied: int
    total: int
    compared: int = 0


@dataclass(frozen=True, slots=True)
class CopySummary:
    tables: int
    rows: int


OnProgress = Callable[[CopyProgress], None]


def refuse_unfinished(conn: Connection) -> None:
    """DatabaseError if a copy into this database has begun and not finished."""
    if conn.one(SQL.progress) is not None:
        raise DatabaseError("a copy into this database has not finished: resume it with `restante copy`")


def copy(source: Engine, target: Engine, on_progress: OnProgress, *, start_over: bool = False) -> CopySummary:
    """Copy everything, or the rest of an interrupted copy, and compare."""
    from_conn, to_conn = source.connect(writable=False), target.connect(writable=True)
    try:
        with _snapshot(from_conn):
            tables = _tables_of_embedded(from_conn, to_conn, source)
            totals = {table.name: _count(from_conn, table) for table in tables}
            with _transaction(to_conn):
                _prepare(to_conn, tables, start_over)
            for table in tables:
                _copy_table(from_conn, to_conn, table, totals[table.name], on_progress)
            for table in tables:
                _compare(from_conn, to_conn, table, totals[table.name], on_progress)
            with _transaction(to_conn):
                _advance_counters(from_conn, to_conn, is_embedded=not target.is_shared)
                to_conn.run(SQL.delete_progress)
        return CopySummary(len(tables), sum(totals.values()))
    finally:
        from_conn.close()
        to_conn.close()


def _tables_of_embedded(source: EngineConnection, target: EngineConnection, source_engine: Engine) -> list[Table]:
    """The tables, as the embedded one of the two describes them. Both have the same schema."""
    if not source_engine.is_shared:
        return _tables_in_order(source)
    with _snapshot(target):
        return _tables_in_order(target)


def _tables_in_order(conn: Connection) -> list[Table]:
    """The tables of the source, each after the tables that it references."""
    columns: dict[str, list[Row]] = {}
    for row in conn.all(SQL.columns):
        if row["table_name"] not in _OWN_TABLES:
            columns.setdefault(row["table_name"], []).append(row)
    parents: dict[str, set[str]] = {name: set() for name in columns}
    for row in conn.all(SQL.references):
        if row["parent_name"] != row["table_name"]:
            parents[row["table_name"]].add(row["parent_name"])
    return [_table(name, columns[name]) for name in TopologicalSorter(parents).static_order()]


def _table(name: str, columns: list[Row]) -> Table:
    key = sorted((row["key_place"], row["column_name"]) for row in columns if row["key_place"])
    return Table(name, tuple(row["column_name"] for row in columns), tuple(column for _, column in key))


def _prepare(conn: Connection, tables: list[Table], start_over: bool) -> None:
    """Begin a copy, unless one is unfinished. DatabaseError if the target holds other data."""
    is_unfinished = bool(conn.all(SQL.progress))
    if is_unfinished and not start_over:
        return
    if not is_unfinished:
        non_empty = [table.name for table in tables if table.name not in _FILLED_BY_MIGRATIONS and _count(conn, table)]
        if non_empty:
            raise DatabaseError(f"the target is not empty: {non_empty[0]} has rows; nothing was changed")
    conn.run(SQL.delete_progress)
    for table in reversed(tables):
        conn.run(Query(f"empty_{table.name}", f"DELETE FROM {table.name}"))  # noqa: S608
    for table in tables:
        conn.run(SQL.begin_table, table_name=table.name)


def _copy_table(
    source: Connection, target: EngineConnection, table: Table, total: int, on_progress: OnProgress
) -> None:
    with _snapshot(target):
        progress = next(row for row in target.all(SQL.progress) if row["table_name"] == table.name)
    copied = progress["row_count"]
    is_copied = bool(progress["is_copied"])
    after = None if progress["last_key"] is None else _decode_key(progress["last_key"])
    on_progress(CopyProgress(table.name, copied, total))
    while not is_copied:
        rows = _page(source, table, after)
        copied += len(rows)
        is_copied = len(rows) < CHUNK_ROWS
        after = tuple(rows[-1][column] for column in table.key) if rows else after
        with _transaction(target):
            if rows:
                target.run_many(table.insert(), ({column: row[column] for column in table.columns} for row in rows))
            last_key = None if after is None else _encode_key(after)
            target.run(
                SQL.advance, table_name=table.name, last_key=last_key, row_count=copied, is_copied=int(is_copied)
            )
        on_progress(CopyProgress(table.name, copied, total))


def _compare(source: Connection, target: EngineConnection, table: Table, total: int, on_progress: OnProgress) -> None:
    """DatabaseError if the two sides differ."""
    with _snapshot(target):
        expected, found = (
            _digests(source, table, lambda _: None),
            _digests(target, table, _report_compared(table, total, on_progress)),
        )
    if expected != found:
        raise DatabaseError(
            f"{table.name} differs: {expected[0]} rows in the source and {found[0]} in the target, or different rows."
            " Has the source been used since the copy began? Copy again with --start-over"
        )


def _report_compared(table: Table, total: int, on_progress: OnProgress) -> Callable[[int], None]:
    return lambda compared: on_progress(CopyProgress(table.name, total, total, compared))


def _digests(conn: Connection, table: Table, on_rows: Callable[[int], None]) -> tuple[int, int]:
    """The number of rows, and a digest of all rows that does not depend on their order."""
    count = digest = 0
    after: tuple[Any, ...] | None = None
    encode = msgspec.json.Encoder().encode
    while rows := _page(conn, table, after):
        for row in rows:
            values = encode([row[column] for column in table.columns])
            digest += int.from_bytes(hashlib.sha256(values).digest(), "big")
        count += len(rows)
        after = tuple(rows[-1][column] for column in table.key)
        on_rows(count)
    return count, digest % _DIGEST_MODULUS


def _page(conn: Connection, table: Table, after: tuple[Any, ...] | None) -> list[Row]:
    key = {} if after is None else {f"key_{place}": value for place, value in enumerate(after)}
    return conn.all(table.page(after_key=after is not None), chunk=CHUNK_ROWS, **key)


def _count(conn: Connection, table: Table) -> int:
    row = conn.one(Query(f"count_{table.name}", f"SELECT count(*) AS count FROM {table.name}"))  # noqa: S608
    return int(row["count"]) if row else 0


def _advance_counters(source: Connection, target: Connection, *, is_embedded: bool) -> None:
    """Make the target issue only ids that the source has never issued, not even to deleted rows."""
    for row in source.all(SQL.counters):
        if row["highest"]:
            if is_embedded:
                target.run(SQL.add_counter, table_name=row["table_name"])
            target.all(SQL.advance_counter, table_name=row["table_name"], highest=row["highest"])


def _quoted(names: tuple[str, ...]) -> list[str]:
    return [f'"{name}"' for name in names]


def _encode_key(key: tuple[Any, ...]) -> str:
    tagged = [["bytes", value.hex()] if isinstance(value, bytes) else ["plain", value] for value in key]
    return msgspec.json.encode(tagged).decode()


def _decode_key(text: str) -> tuple[Any, ...]:
    return tuple(bytes.fromhex(value) if kind == "bytes" else value for kind, value in msgspec.json.decode(text))


@contextmanager
def _transaction(conn: EngineConnection) -> Iterator[None]:
    conn.begin()
    try:
        yield
        conn.commit()
    except BaseException:
        conn.rollback()
        raise


@contextmanager
def _snapshot(conn: EngineConnection) -> Iterator[None]:
    conn.begin()
    try:
        yield
    finally:
        conn.rollback()
