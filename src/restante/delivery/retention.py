"""Retention: what has served its time is removed, a bounded number of rows at a time, so that no sweep holds the
writer for long. The log is not swept here: it is trimmed as it grows."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError

log = structlog.get_logger()

INTERVAL_SECONDS = 600.0
# Removes rows of its kind, as many as are good for one transaction; how many it removed.
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
                log.error("retention failed, it is tried again", error=str(error))
            await asyncio.sleep(INTERVAL_SECONDS)

    async def run_once(self) -> int:
        """Sweep until nothing is left to remove; how many rows were."""
        removed = 0
        for sweep in self._sweeps:
            while count := await self._database.write(sweep):
                removed += count
        return removed
