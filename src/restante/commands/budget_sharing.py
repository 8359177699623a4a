"""Shares the budgets of collectors with the other nodes and workers, through the database, in batches.

Does not decide who may send: see collector_budgets.py. A row is a token bucket, stored as the time at which it is full
again, in the database's time. A row whose time has passed is not needed.
"""

import asyncio

import structlog

from restante.commands.collector_budgets import BudgetName, CollectorBudgets, Spent
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

log = structlog.get_logger()

INTERVAL_SECONDS = 2.0


class BudgetSharing:
    def __init__(self, database: Database, budgets: CollectorBudgets) -> None:
        self._database = database
        self._budgets = budgets

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.try_once()

    async def try_once(self) -> None:
        unshared = self._budgets.take_unshared()
        if not unshared:
            return
        try:
            shared = await self._database.write(add_spent, unshared)
        except DatabaseError as error:
            self._budgets.put_back(unshared)
            log.error("budgets of collectors not shared, will be retried", error=str(error))
            return
        for device_id, budget, seconds in shared:
            self._budgets.apply_shared(device_id, budget, seconds)


def add_spent(conn: Connection, unshared: list[Spent]) -> list[tuple[int, BudgetName, float]]:
    """Add what was spent at this node; return in how many seconds each of these budgets is full again."""
    shared: list[tuple[int, BudgetName, float]] = []
    # Sorted, because another node may be writing the same rows: a common order avoids deadlocks.
    for device_id, budget, seconds in sorted(unshared):
        spent_ms = int(seconds * 1000)
        row = conn.one(SQL.add_spent, device_id=device_id, budget=budget, spent_ms=spent_ms, now_ms=conn.now_ms)
        if row is not None:
            shared.append((device_id, budget, (row["full_at"] - conn.now_ms) / 1000))
    return shared


def delete_full(conn: Connection) -> int:
    """Delete budgets that are full: a missing budget is full, too. Run periodically."""
    return conn.run(SQL.delete_full, now_ms=conn.now_ms)
