"""The outboxes in databases of users: one dispatcher each, and on PostgreSQL a listener."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from restante.core.backoff import PollBackoff
from restante.database.database import Database
from restante.database.external.external_database import ExternalAddress, ExternalDatabase
from restante.database.external.listener import OutboxListener
from restante.delivery.outbox.dispatch_loop import DispatchLoop
from restante.delivery.outbox.dispatcher import DispatcherOptions
from restante.delivery.outbox.external_dispatcher import ExternalDispatcher
from restante.delivery.outbox.outbox import Append
from restante.delivery.outbox.outbox_sources import OutboxSource
from restante.web.component import MetricSample, Service


class _Source(NamedTuple):
    source: ExternalDatabase
    dispatcher: ExternalDispatcher
    runner: DispatchLoop
    # On PostgreSQL: wakes the dispatcher when the application inserts rows.
    listener: OutboxListener | None


class ExternalOutboxes:
    def __init__(
        self,
        addresses: Iterable[ExternalAddress],
        database: Database,
        options: DispatcherOptions,
        pace: PollBackoff,
        append: Append,
        keep_delivered_days: int,
    ) -> None:
        self._sources = []
        for address in addresses:
            source = ExternalDatabase(address)
            dispatcher = ExternalDispatcher(database, source, options, append, keep_delivered_days)
            runner = DispatchLoop(dispatcher, pace, address.name)
            listener = OutboxListener(address, pace, runner.wake) if address.engine == "postgres" else None
            self._sources.append(_Source(source, dispatcher, runner, listener))

    def sources(self) -> Iterator[OutboxSource]:
        for each in self._sources:
            yield OutboxSource(each.source.name, each.source, each.runner.wake)

    def services(self) -> Iterator[Service]:
        """Each external outbox has a dispatcher, and on PostgreSQL a listener, named after it."""
        for each in self._sources:
            name = each.source.name
            yield Service(f"dispatcher of {name}", each.runner.run, each.runner.stop, role="dispatcher")
            if each.listener is not None:
                yield Service(f"listener of {name}", each.listener.run, role="dispatcher")

    def unavailable(self) -> list[str]:
        """The names of the databases that the last attempt could not reach."""
        return [each.source.name for each in self._sources if each.source.problem is not None]

    def metrics(self) -> Iterator[MetricSample]:
        for each in self._sources:
            source, counters = (each.source.name,), each.dispatcher.counters
            yield MetricSample("restante_outbox_source_up", float(each.source.problem is None), source)
            yield MetricSample("restante_outbox_source_delivered", counters.delivered, source)
            yield MetricSample("restante_outbox_source_retried", counters.retried, source)
            yield MetricSample("restante_outbox_source_failed", counters.failed, source)
            yield MetricSample("restante_outbox_source_stale", counters.stale, source)
            yield MetricSample("restante_outbox_source_errors", counters.errors, source)
            if each.listener is not None:
                yield MetricSample("restante_outbox_source_listening", float(each.listener.is_listening), source)

    def close(self) -> None:
        for each in self._sources:
            each.source.close()
