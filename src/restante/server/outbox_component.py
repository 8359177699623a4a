"""The outbox as one component: how changes reach devices, and the dispatchers that publish them.

change ── emit ─▶ outbox ─▶ dispatcher ─▶ log        the server's own outbox
                external outbox ─▶ its dispatcher ─▶ log        one in each configured database of a user
"""

from collections.abc import Iterable, Mapping

from restante.database.commit_events import ForeignCommit
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.log import log as signal_log
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import dedupe_receipts, outbox
from restante.delivery.outbox.dispatch_loop import DispatchLoop
from restante.delivery.outbox.dispatcher import Dispatcher
from restante.delivery.outbox.outbox import Enqueued
from restante.delivery.outbox.outbox_sources import OutboxSource, own_outbox_source
from restante.delivery.retention import Sweep
from restante.server.config.options import dispatcher_options, external_outbox_backoff, own_outbox_backoff
from restante.server.config.settings import Settings
from restante.server.external_outboxes import ExternalOutboxes
from restante.web.component import Component, EventHandler, MetricSample, Service

DAY_SECONDS = 86_400
SWEEP_ROWS = 1000


class OutboxComponent(Component):
    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self.dispatcher = Dispatcher(database, dispatcher_options(settings), self.append_all)
        self._dispatch_loop = DispatchLoop(self.dispatcher, own_outbox_backoff(settings))
        self.external = ExternalOutboxes(
            settings.outbox,
            database,
            dispatcher_options(settings),
            external_outbox_backoff(settings),
            self.append_all,
            settings.outbox_keep_delivered_days,
        )
        self._row_counts: dict[str, int | None] = {}

    def append(self, conn: Connection, device_id: int, signals: list[Signal]) -> object:
        return signal_log.append(conn, device_id, signals, self._settings.log_keep_signals)

    def append_all(self, conn: Connection, signals: Mapping[int, list[Signal]]) -> object:
        return signal_log.append_all(conn, signals, self._settings.log_keep_signals)

    def emit(self, conn: Connection, device_id: int, signal: Signal) -> None:
        """Send a signal to a device with the change it is about: through the outbox, or to the log if so configured."""
        if self._settings.direct_signals:
            outbox.emit_directly(conn, device_id, signal, self.append_all)
        else:
            outbox.enqueue(conn, device_id, signal)

    def emit_all(self, conn: Connection, signals: Mapping[int, Signal]) -> None:
        """Send a signal to each of these devices."""
        if self._settings.direct_signals:
            for device_id, signal in signals.items():
                self.emit(conn, device_id, signal)
        else:
            outbox.enqueue_all(conn, signals)

    def sources(self) -> dict[str, OutboxSource]:
        """All outboxes by name, the server's own first."""
        own = own_outbox_source(self._database, self._dispatch_loop.wake)
        return {source.name: source for source in (own, *self.external.sources())}

    def services(self) -> list[Service]:
        own = Service("dispatcher", self._dispatch_loop.run, self._dispatch_loop.stop, role="dispatcher")
        return [own, *self.external.services()]

    def sweeps(self) -> list[Sweep]:
        return [self._sweep_outbox, self._sweep_receipts]

    def _sweep_outbox(self, conn: Connection) -> int:
        return outbox.evict_delivered(conn, self._settings.outbox_keep_delivered_days * DAY_SECONDS, SWEEP_ROWS)

    def _sweep_receipts(self, conn: Connection) -> int:
        # At least a day: a paused dispatcher elsewhere may still hold the row that a receipt is for.
        kept_days = max(1, self._settings.outbox_keep_delivered_days)
        return dedupe_receipts.evict_closed(conn, kept_days * DAY_SECONDS, SWEEP_ROWS)

    def release_leases(self, conn: Connection) -> None:
        outbox.release_all(conn)

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {Enqueued: lambda _: self._dispatch_loop.wake(), ForeignCommit: lambda _: self._dispatch_loop.wake()}

    def recheck(self) -> None:
        self._dispatch_loop.wake()

    def unavailable(self) -> list[str]:
        return [f"outbox {name}" for name in self.external.unavailable()]

    async def read_metrics(self) -> None:
        self._row_counts = await self._database.read(outbox.counts)

    def metrics(self) -> Iterable[MetricSample]:
        counters = self.dispatcher.counters
        own = (outbox.OWN_SOURCE,)
        yield MetricSample("restante_outbox_source_up", 1, own)
        yield MetricSample("restante_outbox_source_delivered", counters.delivered, own)
        yield MetricSample("restante_outbox_source_retried", counters.retried, own)
        yield MetricSample("restante_outbox_source_failed", counters.failed, own)
        yield MetricSample("restante_outbox_source_stale", counters.stale, own)
        yield MetricSample("restante_outbox_source_errors", counters.errors, own)
        yield MetricSample("restante_outbox_source_listening", 1, own)
        yield from self.external.metrics()
        yield MetricSample("restante_outbox_dispatched", counters.delivered, ("delivered",))
        yield MetricSample("restante_outbox_dispatched", counters.retried, ("retried",))
        yield MetricSample("restante_outbox_dispatched", counters.failed, ("failed",))
        counts = self._row_counts
        yield MetricSample("restante_outbox_rows", counts.get("pending") or 0, ("pending",))
        yield MetricSample("restante_outbox_rows", counts.get("failed") or 0, ("failed",))
        yield MetricSample("restante_outbox_oldest_pending_seconds", (counts.get("oldest_pending_ms") or 0) / 1000)

    def release(self) -> None:
        self.external.close()
