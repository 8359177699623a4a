"""Starts the server with a fault built in, for tests of the checker that is to find it.

    python -m tests.faults.sabotage FAULT die|live serve …

Where a fault shows only in a crash, the server kills itself at the worst moment, so that finding it is certain and not
a matter of luck; told to live, it has the fault and does not die of it.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from restante.cli.main import main
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.engine import EngineConnection
from restante.database.queries import Query
from restante.database.writer import Writer
from restante.delivery import dispatcher, outbox
from restante.delivery.dispatcher import Dispatcher
from restante.delivery.outbox import HeldRow, Outcome
from restante.delivery.signals import Signal

# Late enough that there is a load to be hurt.
BAD_MOMENT = 20
MARK_ALL = Query(
    "mark_all",
    "UPDATE device_update_outbox SET status = 'DELIVERED', lock_expires_at = NULL "
    "WHERE claimed_by = :claimed_by AND status = 'PENDING' RETURNING id, device_id, payload, attempts",
)


class Crash:
    """Kills the process at the twentieth bad moment."""

    def __init__(self, *, dies: bool) -> None:
        self._dies = dies
        self._moments = 0

    @property
    def is_next(self) -> bool:
        """Whether the next bad moment is the last."""
        return self._dies and self._moments + 1 == BAD_MOMENT

    def may_come(self) -> None:
        self._moments += 1
        if self._dies and self._moments == BAD_MOMENT:
            os.kill(os.getpid(), signal.SIGKILL)


def die_holding(crash: Crash) -> None:
    """No fault at all: a crash between claiming rows and delivering them, which must do no harm."""

    async def run_once(self: Dispatcher) -> Outcome:
        if await self._database.write(outbox.claim, self.name, 30.0, 100):
            crash.may_come()
            return await self._database.write(outbox.deliver_held, self.name, self._append)
        return Outcome()

    replace(Dispatcher, "run_once", run_once)


def mark_before_publish(crash: Crash) -> None:
    async def run_once(self: Dispatcher) -> Outcome:
        await self._database.write(outbox.claim, self.name, 30.0, 100)
        rows = await self._database.write(_mark_all, self.name)
        if rows:
            crash.may_come()
        await self._database.write(_publish, rows, self._append)
        return Outcome(delivered=len(rows))

    replace(Dispatcher, "run_once", run_once)


def publish_before_mark(crash: Crash) -> None:
    async def run_once(self: Dispatcher) -> Outcome:
        # The lease is short, so that the next life takes the rows up soon.
        await self._database.write(outbox.claim, self.name, 0.5, 100)
        rows = await self._database.read(outbox.held_by, self.name)
        await self._database.write(_publish, rows, self._append)
        if rows:
            crash.may_come()
        await self._database.write(_mark_all, self.name)
        return Outcome(delivered=len(rows))

    replace(Dispatcher, "run_once", run_once)


def _mark_all(conn: Connection, name: str) -> list[HeldRow]:
    return sorted(HeldRow(**row) for row in conn.all(MARK_ALL, claimed_by=name))


def _publish(conn: Connection, rows: list[HeldRow], append: outbox.Append) -> None:
    for row, told in zip(rows, outbox.signals_of(conn, rows), strict=True):
        assert not isinstance(told, outbox.Undeliverable)
        append(conn, {row.device_id: [told]})


def answer_before_commit(crash: Crash) -> None:
    answer_early(crash, outbox, "enqueue")


def answer_early(crash: Crash, owner: object, name: str) -> None:
    """Answers come before the commit; the bad moment is between the two, where the named function had a part in it."""
    work = getattr(owner, name)
    is_at_stake = False

    def noted(*args: Any) -> Any:
        nonlocal is_at_stake
        is_at_stake = True
        return work(*args)

    def run_together(self: Writer, conn: EngineConnection, works: list[Any]) -> None:
        nonlocal is_at_stake
        is_at_stake = False
        conn.begin()
        for work in works:
            try:
                work.run(conn)
                work.answer()
            except RestanteError as error:
                work.fail(error)
        if is_at_stake:
            # Time enough for the answer to reach its client: on a busy machine, too, where it matters.
            time.sleep(2.0 if crash.is_next else 0.05)
            crash.may_come()
        self._tell(conn.commit())

    replace(owner, name, noted)
    replace(Writer, "_run_together", run_together)


def signal_apart(crash: Crash) -> None:
    from restante.server.app import Node

    def emit(self: Node, _conn: Connection, device_id: int, told: Signal) -> None:
        def later() -> None:
            crash.may_come()
            self.database.submit(outbox.enqueue, device_id, told)

        threading.Timer(0.05, later).start()

    replace(Node, "emit", emit)


def out_of_order(_crash: Crash) -> None:
    held_by = outbox.held_by
    run_once = Dispatcher.run_once

    async def run_when_much_has_come(self: Dispatcher) -> Outcome:
        await asyncio.sleep(0.2)
        return await run_once(self)

    replace(outbox, "held_by", lambda conn, name: list(reversed(held_by(conn, name))))
    replace(dispatcher.Dispatcher, "run_once", run_when_much_has_come)


def replace(owner: object, name: str, by: object) -> None:
    if not hasattr(owner, name):
        raise AttributeError(f"there is no {name} to sabotage")
    setattr(owner, name, by)


FAULTS: dict[str, Callable[[Crash], None]] = {
    fault.__name__: fault
    for fault in (
        die_holding,
        mark_before_publish,
        publish_before_mark,
        answer_before_commit,
        signal_apart,
        out_of_order,
    )
}


def start(faults: dict[str, Callable[[Crash], None]]) -> None:
    """Build in the fault that the command line names, and do what the rest of it says."""
    faults[sys.argv[1]](Crash(dies=sys.argv[2] == "die"))
    sys.argv[1:3] = []
    main()


if __name__ == "__main__":
    start(FAULTS)
