"""When each client was last seen: collected in memory and written in batches, so a poll writes nothing.

A crash loses at most one interval of last-seen times; the next poll of each client restores them. Until a time is
written, `last_seen` answers from memory.
"""

import asyncio
from collections.abc import Callable

import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError

log = structlog.get_logger()

INTERVAL_SECONDS = 30.0
# Small enough that a flush never occupies the writer for long.
BATCH = 1000

# Stores when each id was last seen, in seconds since the epoch.
WriteLastSeen = Callable[[Connection, list[tuple[int, float]]], None]


class Presence:
    def __init__(self, database: Database, write: WriteLastSeen | None = None) -> None:
        self._database = database
        # None: a subclass stores the times with more.
        self._write = write
        # Id → seconds since the epoch. Polls write to it directly.
        self.seen: dict[int, float] = {}
        # What is being written now.
        self._seen_before: dict[int, float] = {}

    def last_seen(self, key: int) -> float | None:
        """When the client was last seen by this process, in seconds since the epoch, if that may not be written yet."""
        return self.seen.get(key) or self._seen_before.get(key)

    def newest_ms(self, key: int, stored_ms: int | None) -> int | None:
        """The last-seen time in milliseconds: that of memory if it is newer than the stored one."""
        remembered = self.last_seen(key)
        return stored_ms if remembered is None else max(int(remembered * 1000), stored_ms or 0)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.try_once()

    async def try_once(self) -> None:
        """Write the collected times, or keep them if the database cannot write them now."""
        try:
            await self.run_once()
        except DatabaseError as error:
            log.error("last-seen times not written, kept in memory", error=str(error))

    async def run_once(self) -> int:
        """Write the collected times; return for how many clients."""
        self._seen_before, self.seen = self.seen, {}
        # Sorted, because another server may be writing the same rows: a common order avoids deadlocks.
        rows = sorted(self._seen_before.items())
        for start in range(0, len(rows), BATCH):
            try:
                await self._store(rows[start : start + BATCH])
            except DatabaseError:
                self.seen = dict(rows[start:]) | self.seen
                raise
        self._seen_before = {}
        return len(rows)

    async def _store(self, seen: list[tuple[int, float]]) -> None:
        if self._write is not None:
            await self._database.write(self._write, seen)
