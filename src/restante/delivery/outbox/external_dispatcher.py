"""The dispatcher of an external outbox: claims rows in the source, publishes them here, marks them in the source.

Two databases mean two transactions. Receipts (`dedupe_receipts.py`), not leases, make sure that each signal is
published exactly once. An unreachable source fails only its own pass: its rows wait there, other outboxes continue.
"""

import time

import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.external.external_database import ExternalDatabase
from restante.delivery.outbox import dedupe_receipts, external_outbox, outbox
from restante.delivery.outbox.dedupe_receipts import LeaseExpired, PublishResult
from restante.delivery.outbox.dispatcher import PREFIX, DispatcherCounters, DispatcherOptions, new_name
from restante.delivery.outbox.external_outbox import ClaimedRow
from restante.delivery.outbox.outbox import Append, Outcome

log = structlog.get_logger()

CLEAN_UP_SECONDS = 600.0
CLEAN_UP_ROWS = 1000
DAY_SECONDS = 86_400


class ExternalDispatcher:
    def __init__(
        self,
        database: Database,
        source: ExternalDatabase,
        options: DispatcherOptions,
        append: Append,
        keep_delivered_days: int,
    ) -> None:
        self._database = database
        self._source = source
        self._options = options
        self._append = append
        self._keep_seconds = keep_delivered_days * DAY_SECONDS
        self._clean_up_at = 0.0
        # After a pass with rows the next pass claims at once, as there may be more. Otherwise it first checks for
        # pending rows, which is cheaper than a claim and blocks no writer of the source.
        self._found_rows = False
        self._is_empty = False
        self.name = new_name()
        self.counters = DispatcherCounters()

    async def run_once(self) -> Outcome:
        """One pass: claim a batch, publish it, mark it."""
        options = self._options
        if time.monotonic() >= self._clean_up_at:
            await self._clean_up()
        if not self._found_rows and not await self._source.read(external_outbox.is_any_pending):
            self._is_empty = True
            return Outcome()
        # Read before the claim: by this clock the lease ends no later than by the clock of the source.
        lease_ends_ms = await self._database.read(dedupe_receipts.clock) + int(options.lease_seconds * 1000)
        rows = await self._source.write_exclusive(
            external_outbox.claim, self.name, options.lease_seconds, options.batch
        )
        self._found_rows, self._is_empty = bool(rows), False
        if not rows:
            return Outcome()
        outcome = await self._deliver(rows, lease_ends_ms)
        self.counters.add(outcome, source=self._source.name)
        return outcome

    async def seconds_until_due(self) -> float | None:
        """How long until a pending row can be claimed; None if there is none."""
        return None if self._is_empty else await self._source.read(external_outbox.seconds_until_due)

    async def publish(self, rows: list[ClaimedRow], lease_ends_ms: int) -> PublishResult:
        return await self._database.write(dedupe_receipts.publish, self._source.name, rows, lease_ends_ms, self._append)

    async def mark(self, rows: list[ClaimedRow], published: PublishResult) -> Outcome:
        """Mark the rows in the source, then close their receipts."""
        in_log = published.published + published.already_published
        outcome = await self._source.write(self._mark, rows, published, in_log)
        await self._database.write(dedupe_receipts.close_receipts, self._source.name, in_log)
        return outcome

    async def _deliver(self, rows: list[ClaimedRow], lease_ends_ms: int) -> Outcome:
        try:
            published = await self.publish(rows, lease_ends_ms)
        except LeaseExpired:
            self._count_stale(len(rows))
            return Outcome()
        except DatabaseUnavailable:
            # The server's own database is unavailable: this must not count as an attempt of the rows.
            await self._source.write(outbox.release, self.name, [row.id for row in rows])
            raise
        except Exception as error:
            log.error(f"{PREFIX} a batch failed, trying its rows one by one", **self._about(error), rows=len(rows))
            return await self._deliver_one_by_one(rows, lease_ends_ms)
        return await self.mark(rows, published)

    async def _deliver_one_by_one(self, rows: list[ClaimedRow], lease_ends_ms: int) -> Outcome:
        outcome = Outcome()
        held_back: set[int] = set()
        untried: list[int] = []
        for row in rows:
            if row.device_id in held_back:
                untried.append(row.id)
                continue
            try:
                outcome.add(await self.mark([row], await self.publish([row], lease_ends_ms)))
            except LeaseExpired:
                self._count_stale(1)
            except Exception as error:
                held_back.add(row.device_id)
                outcome.add(await self._schedule_retry(row, error))
        await self._source.write(outbox.release, self.name, untried)
        return outcome

    async def _schedule_retry(self, row: ClaimedRow, error: Exception) -> Outcome:
        log.error(f"{PREFIX} a row failed", **self._about(error), row=row.id, device_id=row.device_id)
        reason = f"{type(error).__name__}: {error}"
        return await self._source.write(outbox.schedule_retry, self.name, row, reason, self._options.backoff)

    def _mark(self, conn: Connection, rows: list[ClaimedRow], published: PublishResult, in_log: list[int]) -> Outcome:
        external_outbox.mark_delivered(conn, in_log)
        outcome = Outcome(delivered=len(in_log))
        for row in rows:
            if row.id in published.undeliverable:
                outcome.add(outbox.mark_failed(conn, self.name, row, published.undeliverable[row.id]))
        return outcome

    async def _clean_up(self) -> None:
        """Close receipts that a crash left open, and delete old delivered rows."""
        source = self._source.name
        open_ids = await self._database.read(
            dedupe_receipts.open_receipts, source, self._options.lease_seconds, CLEAN_UP_ROWS
        )
        pending = await self._source.read(external_outbox.still_pending, open_ids)
        await self._database.write(
            dedupe_receipts.close_receipts, source, [row_id for row_id in open_ids if row_id not in pending]
        )
        try:
            while await self._source.write(outbox.evict_delivered, self._keep_seconds, CLEAN_UP_ROWS):
                pass
        except DatabaseUnavailable:
            raise
        except DatabaseError as error:
            log.warning(f"{PREFIX} delivered rows cannot be removed", **self._about(error))
        self._clean_up_at = time.monotonic() + CLEAN_UP_SECONDS

    def _count_stale(self, rows: int) -> None:
        self.counters.stale += rows
        log.warning(f"{PREFIX} the lease was over, nothing was published", source=self._source.name, rows=rows)

    def _about(self, error: Exception) -> dict[str, str]:
        return {"source": self._source.name, "error": f"{type(error).__name__}: {error}"}
