"""The runner: leases due jobs and runs their batches, one batch of each job in turn.

It is woken by a commit that makes a job due, and otherwise when the next one is due. A batch that fails as a whole is
tried again item by item, so that one faulty item does not stop the others. Several nodes may run it: the lease of a job
decides which of them does.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import structlog

from restante.database.database import Database
from restante.delivery.outbox.dispatcher import new_name
from restante.delivery.wakeup import Wakeup
from restante.jobs import batches
from restante.jobs.actions import BATCH_ITEMS, JobActions
from restante.jobs.batches import TRANSIENT, BatchOutcome, ItemRaised

log = structlog.get_logger()

LEASE_SECONDS = 15.0
# The lease while items are prepared outside a transaction, for example keys are made.
PREPARING_SECONDS = 300.0
# Jobs that a runner serves in turn.
JOBS_MAX = 8
# How long the runner waits at most before it reads whether something is due.
IDLE_SECONDS = 5.0
# After so many errors in a row that name no item, the job fails.
ERRORS_MAX = 5


class JobRunner:
    def __init__(self, database: Database, actions: JobActions, lease_seconds: float = LEASE_SECONDS) -> None:
        self._database = database
        self._actions = actions
        self._lease_seconds = lease_seconds
        self._owner = new_name()
        self._wakeup = Wakeup()
        self.wake = self._wakeup.wake
        self.stop = self._wakeup.stop
        # The jobs that this runner holds, with the time of their next batch in milliseconds.
        self._held: dict[int, int] = {}
        # Items of these jobs that are still to be tried one by one, because a batch with them failed.
        self._one_by_one: dict[int, int] = {}
        self._errors: Counter[int] = Counter()
        self.items: Counter[str] = Counter()

    async def run(self) -> None:
        while not self._wakeup.is_stopping:
            try:
                is_busy = await self.run_once()
                delay = 0.0 if is_busy else await self._idle_seconds()
            except TRANSIENT as error:
                log.warning("jobs pause because the database does not answer", error=str(error))
                delay = 1.0
            if delay > 0:
                await self._wakeup.wait(delay)
        await self.release()

    async def run_once(self) -> bool:
        """Run one batch of each job that is due; return whether there was one."""
        await self._lease_more()
        now_ms = await self._database.read(lambda conn: conn.now_ms)
        due = [job for job, run_at in self._held.items() if run_at <= now_ms]
        for job in due:
            if self._wakeup.is_stopping:
                break
            await self._run_batch(job)
        return bool(due)

    async def release(self) -> None:
        """Give the leases back, so that another node goes on at once."""
        self._held.clear()
        try:
            await self._database.write(batches.release, self._owner)
        except TRANSIENT as error:
            log.warning("leases of jobs were not released, they end by themselves", error=str(error))

    async def _lease_more(self) -> None:
        free = JOBS_MAX - len(self._held)
        if free > 0 and await self._database.read(batches.has_due):
            leased = await self._database.write(batches.lease_due, self._owner, self._lease_seconds, free)
            self._held.update(dict.fromkeys(leased, 0))

    async def _idle_seconds(self) -> float:
        due = await self._database.read(batches.seconds_until_due)
        if self._held:
            now_ms = await self._database.read(lambda conn: conn.now_ms)
            own = max(0.0, (min(self._held.values()) - now_ms) / 1000)
            due = own if due is None else min(due, own)
        # A due job that was not leased is another node's, or the runner holds as many as it may.
        return IDLE_SECONDS if due is None else min(IDLE_SECONDS, max(due, 0.05))

    async def _run_batch(self, job: int) -> None:
        try:
            outcome = await self._batch(job)
        except TRANSIENT:
            raise
        except ItemRaised as raised:
            log.error("an item of a job failed unexpectedly", job=job, item=raised.item, error=str(raised))
            outcome = await self._database.write(batches.record_failure, self._owner, self._lease_seconds, job, raised)
        except Exception as error:
            await self._batch_failed(job, error)
            return
        self._errors.pop(job, None)
        self._took(job, outcome)

    async def _batch(self, job: int) -> BatchOutcome:
        items_max = 1 if job in self._one_by_one else 2**31
        made: Mapping[int, Any] | None = None
        prepared = await self._database.read(batches.prepare, self._actions, self._owner, job, items_max)
        if prepared is not None:
            await self._database.write(batches.extend_lease, self._owner, PREPARING_SECONDS, job)
            made = await asyncio.to_thread(prepared.action.make, prepared.plan)
        return await self._database.write(
            batches.run_batch, self._actions, self._owner, self._lease_seconds, job, items_max, made
        )

    def _took(self, job: int, outcome: BatchOutcome) -> None:
        if not outcome.is_held:
            self._forget(job)
            return
        self._held[job] = outcome.run_at
        count = 0
        for state, number in (outcome.items or {}).items():
            self.items[state] += number
            count += number
        if job in self._one_by_one:
            self._one_by_one[job] -= count
            if self._one_by_one[job] <= 0:
                del self._one_by_one[job]

    async def _batch_failed(self, job: int, error: Exception) -> None:
        self._errors[job] += 1
        log.error("a batch of a job failed", job=job, error=f"{type(error).__name__}: {error}")
        if self._errors[job] >= ERRORS_MAX:
            reason = f"{type(error).__name__}: {error}"
            await self._database.write(batches.give_up, self._actions, self._owner, job, reason)
            self._forget(job)
            return
        # The next items are tried one by one: as many as the batch may have had.
        self._one_by_one[job] = BATCH_ITEMS

    def _forget(self, job: int) -> None:
        self._held.pop(job, None)
        self._one_by_one.pop(job, None)
        self._errors.pop(job, None)
