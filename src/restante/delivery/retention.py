"""Retention: removes rows that are no longer needed, a bounded number at a time, so no sweep occupies the writer for
long. The log is not swept here: it is trimmed as it grows."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError

log = structlog.get_logger()

INTERVAL_SECONDS = 600.0
# Removes rows of one kind, as many as fit one transaction; returns how many.
Sweep = Callable[[Connection], int]


class Retention:
    def __init__(self, database: Database, sweeps: Sequence[Sweep]) -> None:
        self._database = database
        self._sweeps = sweeps

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except DatabaseError as error:
                log.error("retention sweep failed, will be retried", error=str(error))
            await asyncio.sleep(INTERVAL_SECONDS)

    async def run_once(self) -> int:
        """Sweep until no row is left to remove; return how many were removed."""
        removed = 0
        for sweep in self._sweeps:
            while count := await self._database.write(sweep):
                removed += count
        return removed
