"""The outboxes in users' databases, each with its dispatcher, put together and taken apart."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from restante.core.pace import Pace
from restante.database.database import Database
from restante.database.outside import OutsideAddress, OutsideDatabase
from restante.database.outside_listener import OutsideListener
from restante.delivery.dispatcher import DispatcherOptions
from restante.delivery.outbox import Append
from restante.delivery.outside_dispatcher import OutsideDispatcher
from restante.delivery.runner import Runner
from restante.delivery.sources import Source
from restante.server.roles import OUTSIDE_DISPATCHER, OUTSIDE_LISTENER
from restante.server.services import Service


class _Drained(NamedTuple):
    source: OutsideDatabase
    dispatcher: OutsideDispatcher
    runner: Runner
    # Where the database can say that there is something.
    listener: OutsideListener | None


class OutsideOutboxes:
    def __init__(
        self,
        addresses: Iterable[OutsideAddress],
        database: Database,
        options: DispatcherOptions,
        pace: Pace,
        append: Append,
        keep_delivered_days: int,
    ) -> None:
        self._drained = []
        for address in addresses:
            source = OutsideDatabase(address)
            dispatcher = OutsideDispatcher(database, source, options, append, keep_delivered_days)
            runner = Runner(dispatcher, pace, address.name)
            listener = OutsideListener(address, pace, runner.ring) if address.engine == "postgres" else None
            self._drained.append(_Drained(source, dispatcher, runner, listener))

    def sources(self) -> Iterator[Source]:
        for each in self._drained:
            yield Source(each.source.name, each.source, each.runner.ring)

    def services(self) -> Iterator[Service]:
        for each in self._drained:
            yield Service(OUTSIDE_DISPATCHER + each.source.name, each.runner.run, each.runner.stop)
            if each.listener is not None:
                yield Service(OUTSIDE_LISTENER + each.source.name, each.listener.run)

    def away(self) -> list[str]:
        """The names of those that could not be reached the last time."""
        return [each.source.name for each in self._drained if each.source.problem is not None]

    def values(self) -> Iterator[tuple[str, str, float]]:
        """What the metrics say of each: metric, source, value."""
        for each in self._drained:
            name, totals = each.source.name, each.dispatcher.totals
            yield "restante_outbox_source_up", name, float(each.source.problem is None)
            yield "restante_outbox_source_delivered", name, totals.delivered
            yield "restante_outbox_source_retried", name, totals.retried
            yield "restante_outbox_source_failed", name, totals.failed
            yield "restante_outbox_source_stale", name, totals.stale
            yield "restante_outbox_source_errors", name, totals.errors
            if each.listener is not None:
                yield "restante_outbox_source_listening", name, float(each.listener.is_listening)

    def close(self) -> None:
        for each in self._drained:
            each.source.close()
