"""Seals every value of the database anew, under the key that seals now.

    for each column: read a page of values ─▶ open with either key, seal with the new one ─▶ replace, if unchanged

A value that is under the new key already is left alone, so a pass that was killed continues where it was, and two
passes at once do no harm. A value that a server changes between read and write is left to the next pass. The last pass
finds nothing to do: it opens every value with the new key, which is the proof that the old key is not needed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from restante.database.connection import Connection, Row
from restante.database.database import Database
from restante.identity.master_key import MasterKey, MasterKeyError
from restante.identity.reseal.sealed_columns import SEALED_COLUMNS, SealedColumn

# Small, so that no server waits long for a row of a batch.
BATCH_ROWS = 100
UNREADABLE_NAMED_MAX = 20


@dataclass(slots=True)
class PassResult:
    """One pass over all values. `resealed`: those that were not under the key that seals."""

    values: int = 0
    resealed: int = 0
    # Values that no given key opens: they were unreadable before.
    unreadable: int = 0
    unreadable_names: list[str] = field(default_factory=list)


OnProgress = Callable[[SealedColumn, PassResult], None]


def run_pass(database: Database, master: MasterKey, on_progress: OnProgress) -> PassResult:
    """Seal every value that is not under the key that seals now."""
    result = PassResult()
    for column in SEALED_COLUMNS:
        for rows in _pages(database, column):
            stale = [row for row in rows if not master.is_current(row[column.column], column.purpose_of(row))]
            changed = _resealed(master, column, stale, result)
            if changed:
                database.write_now(_replace, column, changed)
            result.values += len(rows)
            on_progress(column, result)
    return result


def _pages(database: Database, column: SealedColumn) -> Iterator[list[Row]]:
    after: dict[str, Any] = {}
    while rows := database.read_now(_page, column, after):
        yield rows
        after = {f"after_{name}": value for name, value in zip(column.key, column.key_of(rows[-1]), strict=True)}


def _page(conn: Connection, column: SealedColumn, after: dict[str, Any]) -> list[Row]:
    return conn.all(column.page(is_first=not after), **after, limit=BATCH_ROWS)


def _resealed(master: MasterKey, column: SealedColumn, rows: list[Row], result: PassResult) -> list[tuple[Any, ...]]:
    changed = []
    for row in rows:
        old, purpose = row[column.column], column.purpose_of(row)
        try:
            new = master.seal(master.open(old, purpose), purpose)
        except MasterKeyError:
            result.unreadable += 1
            if len(result.unreadable_names) < UNREADABLE_NAMED_MAX:
                key = ", ".join(map(str, column.key_of(row)))
                result.unreadable_names.append(f"{column.table}.{column.column} of {key}")
            continue
        result.resealed += 1
        changed.append((new, *column.key_of(row), old))
    return changed


def _replace(conn: Connection, column: SealedColumn, changed: list[tuple[Any, ...]]) -> None:
    conn.run_rows(column.replace(), changed)
