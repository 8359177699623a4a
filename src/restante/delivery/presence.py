"""When each device was last seen: collected in memory, written in batches. A poll writes nothing.

What a crash loses is at most one interval of last-seen times, which the next poll of each device restores.
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
# Small enough that a flush never holds the writer for long.
BATCH = 1000

# Writes down when each of the ids was last seen, in seconds since the epoch.
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
        """Write what was collected, if the database takes it now."""
        try:
            await self.run_once()
        except DatabaseError as error:
            log.error("last-seen times could not be written, they are kept", error=str(error))

    async def run_once(self) -> int:
        """Write what was collected; how many devices."""
        seen, self.seen = self.seen, {}
        # In one order: another server may be writing about the same devices.
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
