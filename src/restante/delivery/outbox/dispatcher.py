"""The dispatcher moves signals from the outbox to the log. `dispatch_loop.py` runs its passes.

A pass is two transactions: one claims a batch of rows (a lease), the other publishes them and marks them delivered. A
crash between the two leaves the rows leased; when the lease expires, any dispatcher can claim them. A dispatcher that
resumes late finds that it has no lease, and so does no harm.

It does not know the implementation of `append`: the log of this database, or a copy elsewhere that may fail.
"""

import os
import secrets
import socket
from dataclasses import dataclass

import structlog

from restante.core.backoff import Backoff
from restante.database.database import Database
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import Append, LeasedRow, Outcome

log = structlog.get_logger()
PREFIX = "[device-outbox]"


@dataclass(frozen=True, slots=True)
class DispatcherOptions:
    batch: int
    lease_seconds: float
    backoff: Backoff


@dataclass(slots=True)
class DispatcherCounters:
    """Counted since the start, for the metrics."""

    passes: int = 0
    delivered: int = 0
    retried: int = 0
    failed: int = 0
    # Rows whose lease had expired before they were published.
    stale: int = 0
    # Passes that failed as a whole because a database was unavailable.
    errors: int = 0

    def add(self, outcome: Outcome, **fields: str) -> None:
        """Count a pass and log its outcome."""
        self.passes += 1
        self.delivered += outcome.delivered
        self.retried += outcome.retried
        self.failed += outcome.failed
        if outcome.delivered:
            log.info(f"{PREFIX} delivered", rows=outcome.delivered, **fields)
        if outcome.failed:
            log.error(f"{PREFIX} given up", rows=outcome.failed, **fields)


def new_name() -> str:
    """A unique dispatcher name: a restarted process must not count as the holder of its former leases."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"


class Dispatcher:
    def __init__(
        self,
        database: Database,
        options: DispatcherOptions,
        append: Append,
        name: str | None = None,
    ) -> None:
        self._database = database
        self._options = options
        self._append = append
        self.name = name or new_name()
        self.counters = DispatcherCounters()

    async def run_once(self) -> Outcome:
        """One pass: claim a batch, publish it."""
        options = self._options
        claimed = await self._database.write(outbox.claim, self.name, options.lease_seconds, options.batch)
        if not claimed:
            return Outcome()
        outcome = await self._deliver(claimed)
        self.counters.add(outcome)
        return outcome

    async def _deliver(self, claimed: int) -> Outcome:
        try:
            outcome = await self._database.write(outbox.deliver_leased, self.name, self._append)
            self.counters.stale += max(0, claimed - outcome.delivered - outcome.failed)
        except Exception as error:
            log.error(f"{PREFIX} a batch failed, trying its rows one by one", rows=claimed, error=str(error))
            outcome = await self._deliver_one_by_one()
        return outcome

    async def seconds_until_due(self) -> float | None:
        """How long until a pending row can be claimed; None if there is none."""
        return await self._database.read(outbox.seconds_until_due)

    async def _deliver_one_by_one(self) -> Outcome:
        outcome = Outcome()
        held_back: set[int] = set()
        untried: list[int] = []
        for row in await self._database.write(outbox.leased_rows, self.name):
            if row.device_id in held_back:
                untried.append(row.id)
                continue
            try:
                outcome.add(await self._database.write(outbox.deliver_row, self.name, row.id, self._append))
            except Exception as error:
                held_back.add(row.device_id)
                outcome.add(await self._schedule_retry(row, error))
        await self._database.write(outbox.release, self.name, untried)
        return outcome

    async def _schedule_retry(self, row: LeasedRow, error: Exception) -> Outcome:
        reason = f"{type(error).__name__}: {error}"
        log.error(f"{PREFIX} a row failed", row=row.id, device_id=row.device_id, error=reason)
        return await self._database.write(outbox.schedule_retry, self.name, row, reason, self._options.backoff)
