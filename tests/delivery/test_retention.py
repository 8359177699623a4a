import asyncio

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.delivery import retention as retention_module
from restante.delivery.retention import Retention

SOON = 10.0


class SweptRows:
    """A number of rows to remove, ten at a time; counts its sweeps."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.sweeps = 0

    def sweep(self, _conn: Connection) -> int:
        self.sweeps += 1
        removed = min(self.rows, 10)
        self.rows -= removed
        return removed


@pytest.mark.parametrize(("rows", "sweeps"), [(0, 1), (9, 2), (10, 2), (25, 4)])
async def test_each_kind_is_swept_until_empty_in_separate_transactions(
    database: Database, rows: int, sweeps: int
) -> None:
    tables = [SweptRows(rows), SweptRows(3)]
    before = database.commits
    assert await Retention(database, [table.sweep for table in tables]).run_once() == rows + 3
    assert [table.rows for table in tables] == [0, 0]
    assert tables[0].sweeps == sweeps
    assert database.commits - before == sweeps + 2


async def test_failed_sweep_is_retried(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_module, "INTERVAL_SECONDS", 0.001)
    errors = [DatabaseUnavailable("locked"), DatabaseUnavailable("still")]
    loop, swept = asyncio.get_running_loop(), asyncio.Event()

    def sweep(_conn: Connection) -> int:
        if errors:
            raise errors.pop()
        loop.call_soon_threadsafe(swept.set)
        return 0

    task = asyncio.ensure_future(Retention(database, [sweep]).run())
    await asyncio.wait_for(swept.wait(), SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
