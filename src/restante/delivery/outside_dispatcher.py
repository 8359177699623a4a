"""The dispatcher of an outbox in a database of the user's: claims over there, publishes here, marks over there.

Two databases are two transactions, so each signal is published exactly once by its receipt (`receipts.py`) and not by
the lease. A source that is away fails the pass and nothing else: its rows wait over there, other outboxes go on.
"""

import time

import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.database.outside import OutsideDatabase
from restante.delivery import outbox, outside_outbox, receipts
from restante.delivery.dispatcher import PREFIX, DispatcherOptions, DispatcherTotals, new_name
from restante.delivery.outbox import Append, HeldRow, Outcome
from restante.delivery.outside_outbox import ClaimedRow
from restante.delivery.receipts import LeaseOver, Publishing

log = structlog.get_logger()

TIDY_SECONDS = 600.0
TIDY_ROWS = 1000
DAY_SECONDS = 86_400


class OutsideDispatcher:
    def __init__(
        self,
        database: Database,
        source: OutsideDatabase,
        options: DispatcherOptions,
        append: Append,
        keep_delivered_days: int = 7,
    ) -> None:
        self._database = database
        self._source = source
        self._options = options
        self._append = append
        self._keep_seconds = keep_delivered_days * DAY_SECONDS
        self._tidy_at = 0.0
        # After rows there may be more, which a claim will tell. Otherwise a look comes first: it is cheaper than a
        # claim, and in nobody's way over there.
        self._has_found = False
        self._is_empty = False
        self.name = new_name()
        self.totals = DispatcherTotals()

    async def run_once(self) -> Outcome:
        """One pass: claim a batch, publish it, mark it."""
        options = self._options
        if time.monotonic() >= self._tidy_at:
            await self._tidy()
        if not self._has_found and not await self._source.read(outside_outbox.is_any_pending):
            self._is_empty = True
            return Outcome()
        # Asked before the claim: by this clock the lease ends no later than by the source's.
        lease_ends_ms = await self._database.read(receipts.clock) + int(options.lease_seconds * 1000)
        rows = await self._source.write_alone(outside_outbox.claim, self.name, options.lease_seconds, options.batch)
        self._has_found, self._is_empty = bool(rows), False
        if not rows:
            return Outcome()
        outcome = await self._deliver(rows, lease_ends_ms)
        self.totals.add(outcome, source=self._source.name)
        return outcome

    async def seconds_until_due(self) -> float | None:
        """How long until a waiting row can be claimed; None where none waits."""
        return None if self._is_empty else await self._source.read(outside_outbox.seconds_until_due)

    async def publish(self, rows: list[ClaimedRow], lease_ends_ms: int) -> Publishing:
        return await self._database.write(receipts.publish, self._source.name, rows, lease_ends_ms, self._append)

    async def mark(self, rows: list[ClaimedRow], publishing: Publishing) -> Outcome:
        """Tell the source what became of its rows, then settle the receipts."""
        in_log = publishing.published + publishing.known
        outcome = await self._source.write(self._mark, rows, publishing, in_log)
        await self._database.write(receipts.settle, self._source.name, in_log)
        return outcome

    async def _deliver(self, rows: list[ClaimedRow], lease_ends_ms: int) -> Outcome:
        try:
            publishing = await self.publish(rows, lease_ends_ms)
        except LeaseOver:
            self._refuse_stale(len(rows))
            return Outcome()
        except DatabaseUnavailable:
            # It is our own database that is away, which is no fault of these rows.
            await self._source.write(outbox.release, self.name, [row.id for row in rows])
            raise
        except Exception as error:
            log.error(f"{PREFIX} a batch failed, trying its rows one by one", **self._about(error), rows=len(rows))
            return await self._deliver_one_by_one(rows, lease_ends_ms)
        return await self.mark(rows, publishing)

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
            except LeaseOver:
                self._refuse_stale(1)
            except Exception as error:
                held_back.add(row.device_id)
                outcome.add(await self._put_back(row, error))
        await self._source.write(outbox.release, self.name, untried)
        return outcome

    async def _put_back(self, row: ClaimedRow, error: Exception) -> Outcome:
        log.error(f"{PREFIX} a row failed", **self._about(error), row=row.id, device_id=row.device_id)
        reason = f"{type(error).__name__}: {error}"
        return await self._source.write(outbox.put_back, self.name, _held(row), reason, self._options.backoff)

    def _mark(self, conn: Connection, rows: list[ClaimedRow], publishing: Publishing, in_log: list[int]) -> Outcome:
        outside_outbox.mark_delivered(conn, in_log)
        outcome = Outcome(delivered=len(in_log))
        for row in rows:
            if row.id in publishing.undeliverable:
                outcome.add(outbox.give_up(conn, self.name, _held(row), publishing.undeliverable[row.id]))
        return outcome

    async def _tidy(self) -> None:
        """Settle receipts that a crash left behind, and remove rows that have been delivered long ago."""
        source = self._source.name
        left = await self._database.read(receipts.unsettled, source, self._options.lease_seconds, TIDY_ROWS)
        pending = await self._source.read(outside_outbox.still_pending, left)
        await self._database.write(receipts.settle, source, [row_id for row_id in left if row_id not in pending])
        try:
            while await self._source.write(outbox.evict_delivered, self._keep_seconds, TIDY_ROWS):
                pass
        except DatabaseUnavailable:
            raise
        except DatabaseError as error:
            log.warning(f"{PREFIX} delivered rows cannot be removed", **self._about(error))
        self._tidy_at = time.monotonic() + TIDY_SECONDS

    def _refuse_stale(self, rows: int) -> None:
        self.totals.stale += rows
        log.warning(f"{PREFIX} the lease was over, nothing was published", source=self._source.name, rows=rows)

    def _about(self, error: Exception) -> dict[str, str]:
        return {"source": self._source.name, "error": f"{type(error).__name__}: {error}"}


def _held(row: ClaimedRow) -> HeldRow:
    return HeldRow(row.id, row.device_id, row.payload, row.attempts)
