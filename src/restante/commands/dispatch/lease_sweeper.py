"""The lease sweeper: a background service that settles every site where something is due.

Polls and ACKs settle the sites they touch. The sweeper covers the sites without traffic: an expired lease, back-off or
command is settled within a minute. Each site is settled in its own write, so that no sweep blocks the writer for long.
"""

import asyncio

import structlog

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.dispatch.settlement import apply_settlement, sites_due
from restante.database.database import Database
from restante.database.errors import DatabaseError

log = structlog.get_logger()

INTERVAL_SECONDS = 60.0
# Bounds one sweep: the next sweep or poll settles the rest.
ROUNDS_MAX = 50


class LeaseSweeper:
    def __init__(self, database: Database, trail: AuditTrail, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._database = database
        self._trail = trail
        self._interval_seconds = interval_seconds

    async def run(self) -> None:
        while True:
            try:
                await self.run_once()
            except DatabaseError as error:
                log.error("lease sweep failed", error=str(error), retry_seconds=self._interval_seconds)
            await asyncio.sleep(self._interval_seconds)

    async def run_once(self) -> int:
        """Settle everything that is due. Return at how many sites something was."""
        settled: set[int] = set()
        for _ in range(ROUNDS_MAX):
            due = await self._database.read(sites_due)
            if not due:
                break
            for site_id in due:
                await self._database.write(apply_settlement, self._trail, site_id)
            settled.update(due)
        return len(settled)
