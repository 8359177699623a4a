"""Lease recovery: settles every site where something is due, also where nobody polls.

Polls and ACKs settle the sites they touch; this makes sure that a lease, a back-off or a command's time that ran out
at a silent site is seen within a minute. Each site is a write of its own, so that no sweep holds the writer for long.
"""

import asyncio

import structlog

from restante.commands.audit import AuditTrail
from restante.commands.leases import settle, sites_due
from restante.database.database import Database
from restante.database.errors import DatabaseError

log = structlog.get_logger()

INTERVAL_SECONDS = 60.0
# For a site with very much that is due: the rest is seen the next time, or by the next poll.
ROUNDS_MAX = 50


class LeaseRecovery:
    def __init__(self, database: Database, trail: AuditTrail, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._database = database
        self._trail = trail
        self._interval_seconds = interval_seconds

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except DatabaseError as error:
                log.error("lease recovery failed, it is tried again", error=str(error))
            await asyncio.sleep(self._interval_seconds)

    async def run_once(self) -> int:
        """Settle all that is due; at how many sites there was something."""
        settled: set[int] = set()
        for _ in range(ROUNDS_MAX):
            due = await self._database.read(sites_due)
            if not due:
                break
            for site_id in due:
                await self._database.write(settle, self._trail, site_id)
            settled.update(due)
        return len(settled)
