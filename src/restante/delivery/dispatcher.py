"""The dispatcher: moves signals from the outbox to the log. What drives it is its runner (`runner.py`).

A pass is two transactions: claim (a lease on a batch of rows), then publish and mark them delivered together. A crash
between the two leaves rows leased; when the lease runs out any dispatcher takes them up. One that wakes up late finds
that it holds nothing, and so can do no harm.

Does not know what stands behind `append`: the log of this database, or a copy of it elsewhere that may fail.
"""

import os
import secrets
import socket
from dataclasses import dataclass, field

import structlog

from restante.core.backoff import Backoff
from restante.database.database import Database
from restante.delivery import log as signal_log
from restante.delivery import outbox
from restante.delivery.outbox import Append, HeldRow, Outcome

log = structlog.get_logger()
PREFIX = "[device-outbox]"


@dataclass(frozen=True, slots=True)
class DispatcherOptions:
    batch: int = 100
    lease_seconds: float = 30.0
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(slots=True)
class DispatcherTotals:
    """Counts since the start, for the metrics."""

    passes: int = 0
    delivered: int = 0
    retried: int = 0
    failed: int = 0
    # Rows that were claimed and had been lost by the time they were to be published.
    stale: int = 0
    # Passes that failed as a whole: a database was away.
    errors: int = 0

    def add(self, outcome: Outcome, **about: str) -> None:
        """Count a pass, and say what became of its rows."""
        self.passes += 1
        self.delivered += outcome.delivered
        self.retried += outcome.retried
        self.failed += outcome.failed
        if outcome.delivered:
            log.info(f"{PREFIX} delivered", rows=outcome.delivered, **about)
        if outcome.failed:
            log.error(f"{PREFIX} given up", rows=outcome.failed, **about)


def new_name() -> str:
    """A dispatcher's, never the same twice: a restarted process must not pass for the holder of its former leases."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{secrets.token_hex(4)}"


class Dispatcher:
    def __init__(
        self,
        database: Database,
        options: DispatcherOptions | None = None,
        append: Append = signal_log.append_all,
        name: str | None = None,
    ) -> None:
        self._database = database
        self._options = options or DispatcherOptions()
        self._append = append
        self.name = name or new_name()
        self.totals = DispatcherTotals()

    async def run_once(self) -> Outcome:
        """One pass: claim a batch, publish it."""
        options = self._options
        claimed = await self._database.write(outbox.claim, self.name, options.lease_seconds, options.batch)
        if not claimed:
            return Outcome()
        outcome = await self._deliver(claimed)
        self.totals.add(outcome)
        return outcome

    async def _deliver(self, claimed: int) -> Outcome:
        try:
            outcome = await self._database.write(outbox.deliver_held, self.name, self._append)
            self.totals.stale += max(0, claimed - outcome.delivered - outcome.failed)
        except Exception as error:
            log.error(f"{PREFIX} a batch failed, trying its rows one by one", rows=claimed, error=str(error))
            outcome = await self._deliver_one_by_one()
        return outcome

    async def seconds_until_due(self) -> float | None:
        """How long until a waiting row can be claimed; None where none waits."""
        return await self._database.read(outbox.seconds_until_due)

    async def _deliver_one_by_one(self) -> Outcome:
        outcome = Outcome()
        held_back: set[int] = set()
        untried: list[int] = []
        for row in await self._database.write(outbox.held_by, self.name):
            if row.device_id in held_back:
                untried.append(row.id)
                continue
            try:
                outcome.add(await self._database.write(outbox.deliver_row, self.name, row.id, self._append))
            except Exception as error:
                held_back.add(row.device_id)
                outcome.add(await self._put_back(row, error))
        await self._database.write(outbox.release, self.name, untried)
        return outcome

    async def _put_back(self, row: HeldRow, error: Exception) -> Outcome:
        reason = f"{type(error).__name__}: {error}"
        log.error(f"{PREFIX} a row failed", row=row.id, device_id=row.device_id, error=reason)
        return await self._database.write(outbox.put_back, self.name, row, reason, self._options.backoff)
