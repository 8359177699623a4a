"""When each device was last seen: collected in memory and written in batches, so a poll writes nothing.

A crash loses at most one interval of last-seen times; the next poll of each device restores them.
"""

import asyncio
from collections.abc import Callable

import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)
log = structlog.get_logger()

INTERVAL_SECONDS = 30.0
# Small enough that a flush never occupies the writer for long.
BATCH = 1000

# Stores when each id was last seen, in seconds since the epoch.
WriteLastSeen = Callable[[Connection, list[tuple[int, float]]], None]


class Presence:
    def __init__(self, database: Database, write: WriteLastSeen | None = None) -> None:
        self._database = database
        self._write = write or write_last_seen
        # Device id → seconds since the epoch. Polls write to it directly.
        self.seen: dict[int, float] = {}

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
        """Write the collected times; return for how many devices."""
        seen, self.seen = self.seen, {}
        # Sorted, because another server may be writing the same rows: a common order avoids deadlocks.
        rows = sorted(seen.items())
        for start in range(0, len(rows), BATCH):
            try:
                await self._database.write(self._write, rows[start : start + BATCH])
            except DatabaseError:
                self.seen = dict(rows[start:]) | self.seen
                raise
        return len(rows)


def write_last_seen(conn: Connection, seen: list[tuple[int, float]]) -> None:
    conn.run_many(SQL.last_seen, [{"device_id": device_id, "seen_ms": int(at * 1000)} for device_id, at in seen])
