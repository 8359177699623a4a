"""Bugs in the delivery of signals, which the checker of updates must find. See `crash_point` for how to start them."""

import asyncio
import threading

from restante.database.connection import Connection
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import dispatcher, outbox
from restante.delivery.outbox.dispatcher import Dispatcher
from restante.delivery.outbox.outbox import LeasedRow, Outcome
from restante.server.outbox_component import OutboxComponent
from tests.faults.crash_point import CrashPoint, replace, respond_before_commit_of, start

MARK_ALL = Query(
    "mark_all",
    "UPDATE device_update_outbox SET status = 'DELIVERED', lock_expires_at = NULL "
    "WHERE claimed_by = :claimed_by AND status = 'PENDING' RETURNING id, device_id, payload, attempts",
)


def crash_between_claim_and_delivery(crash: CrashPoint) -> None:
    """Not a bug: a crash between claiming rows and delivering them must do no harm."""

    async def run_once(self: Dispatcher) -> Outcome:
        if await self._database.write(outbox.claim, self.name, 30.0, 100):
            crash.pass_by()
            return await self._database.write(outbox.deliver_leased, self.name, self._append)
        return Outcome()

    replace(Dispatcher, "run_once", run_once)


def mark_before_publish(crash: CrashPoint) -> None:
    async def run_once(self: Dispatcher) -> Outcome:
        await self._database.write(outbox.claim, self.name, 30.0, 100)
        rows = await self._database.write(_mark_all, self.name)
        if rows:
            crash.pass_by()
        await self._database.write(_publish, rows, self._append)
        return Outcome(delivered=len(rows))

    replace(Dispatcher, "run_once", run_once)


def publish_before_mark(crash: CrashPoint) -> None:
    async def run_once(self: Dispatcher) -> Outcome:
        # The lease is short, so that the restarted server claims the rows soon.
        await self._database.write(outbox.claim, self.name, 0.5, 100)
        rows = await self._database.read(outbox.leased_rows, self.name)
        await self._database.write(_publish, rows, self._append)
        if rows:
            crash.pass_by()
        await self._database.write(_mark_all, self.name)
        return Outcome(delivered=len(rows))

    replace(Dispatcher, "run_once", run_once)


def _mark_all(conn: Connection, name: str) -> list[LeasedRow]:
    rows = [LeasedRow(**row) for row in conn.all(MARK_ALL, claimed_by=name)]
    return sorted(rows, key=lambda row: row.id)


def _publish(conn: Connection, rows: list[LeasedRow], append: outbox.Append) -> None:
    for row, payload in zip(rows, outbox.signals_of(conn, rows), strict=True):
        assert not isinstance(payload, outbox.Undeliverable)
        append(conn, {row.device_id: [payload]})


def respond_before_commit(crash: CrashPoint) -> None:
    respond_before_commit_of(crash, outbox, "enqueue")


def emit_in_another_transaction(crash: CrashPoint) -> None:
    def emit(self: OutboxComponent, _conn: Connection, device_id: int, new: Signal) -> None:
        def later() -> None:
            crash.pass_by()
            self._database.submit(outbox.enqueue, device_id, new)

        threading.Timer(0.05, later).start()

    replace(OutboxComponent, "emit", emit)


def deliver_out_of_order(_crash: CrashPoint) -> None:
    leased_rows = outbox.leased_rows
    run_once = Dispatcher.run_once

    async def run_on_many_rows(self: Dispatcher) -> Outcome:
        await asyncio.sleep(0.2)
        return await run_once(self)

    replace(outbox, "leased_rows", lambda conn, name: list(reversed(leased_rows(conn, name))))
    replace(dispatcher.Dispatcher, "run_once", run_on_many_rows)


if __name__ == "__main__":
    start(
        crash_between_claim_and_delivery,
        mark_before_publish,
        publish_before_mark,
        respond_before_commit,
        emit_in_another_transaction,
        deliver_out_of_order,
    )
