"""The composition root: the only file that names engines, and the one that puts the parts together.

    settings ─▶ Node: database · identity · delivery · updates ─▶ application and fast lane ─▶ lifecycle.serve
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.applications import Starlette

from restante.core.backoff import Backoff
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from restante.delivery import log as signal_log
from restante.delivery import outbox
from restante.delivery.dispatcher import Dispatcher, DispatcherOptions, Runner
from restante.delivery.log_reader import LogReader
from restante.delivery.presence import Presence
from restante.delivery.retention import Retention
from restante.delivery.signals import Signal
from restante.identity import retention as identity_retention
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.server import lifecycle
from restante.server.data_folder import DataFolder
from restante.server.deadlines import Deadlines
from restante.server.fast_lane import LaneShared
from restante.server.health import HealthRoutes
from restante.server.metrics import Metrics, MetricsSources
from restante.server.openapi import DocsRoutes
from restante.server.request_forms import RequestForms
from restante.server.setting_kinds import Address
from restante.server.settings import Settings
from restante.updates import fast_poll
from restante.updates.fast_poll import FastPoll
from restante.updates.poll import Poll, PollOptions
from restante.updates.routes import UpdatesParts, updates_routes
from restante.updates.wire import SHAPE
from restante.updates.wrapping import WrapWorker
from restante.web.access import Gate
from restante.web.application import build_application
from restante.web.routes import Route

DAY_SECONDS = 86_400
SWEEP_ROWS = 1000


class Node:
    """One server process: every part of it, connected, not yet running."""

    def __init__(self, settings: Settings, engine: SqliteEngine, master_key: MasterKey) -> None:
        self.settings = settings
        self.master_key = master_key
        self.database = Database(engine)
        self.signing_keys = SigningKeys(self.database, master_key)
        self.tokens = DeviceTokens(
            self.database,
            self.signing_keys,
            OutsideIssuers(settings.issuers),
            access_token_seconds=settings.access_token_seconds,
            cache_entries_max=settings.token_cache_max,
        )
        self.gate = Gate(self.database, self.tokens)
        self.presence = Presence(self.database)
        self.poll = Poll(LogReader(self.database), self.presence, _poll_options(settings))
        self.dispatcher = Dispatcher(self.database, _dispatcher_options(settings), self.append)
        self.runner = Runner(self.database, self.dispatcher, _dispatcher_options(settings))
        self.wrap_worker = WrapWorker(self.database, master_key, self.emit)
        self.retention = Retention(self.database, [self._sweep_outbox, identity_retention.forget_expired])
        self.lane = self._lane()
        self.metrics = Metrics(
            MetricsSources(self.database, self.poll, self.dispatcher, self.lane, self.tokens)
        )

    def append(self, conn: Connection, device_id: int, signals: list[Signal]) -> object:
        return signal_log.append(conn, device_id, signals, self.settings.log_keep_signals)

    def emit(self, conn: Connection, device_id: int, signal: Signal) -> None:
        """How changes tell devices: through the outbox, or straight to the log where so configured."""
        if self.settings.direct_signals:
            outbox.emit_directly(conn, device_id, signal, self.append)
        else:
            outbox.enqueue(conn, device_id, signal)

    def routes(self) -> list[Route]:
        parts = UpdatesParts(
            database=self.database,
            gate=self.gate,
            tokens=self.tokens,
            master_key=self.master_key,
            poll=self.poll,
            emit=self.emit,
            public_url=self.settings.public_url,
            refresh_token_days=self.settings.refresh_token_days,
            session_hours=self.settings.session_hours,
        )
        routes = [*updates_routes(parts), *HealthRoutes(self.database).routes(), *self.metrics.routes()]
        return [*routes, *DocsRoutes(routes).routes()]

    def application(self, *, with_lifespan: bool = True) -> Starlette:
        return build_application(
            self.routes(),
            self.gate,
            SHAPE,
            lifecycle.lifespan_of(self) if with_lifespan else None,
            self.metrics.observe,
            self.settings.body_bytes_max,
        )

    def _lane(self) -> LaneShared:
        settings = self.settings
        return LaneShared(
            forms=RequestForms({fast_poll.TARGET: FastPoll(self.poll, self.tokens)}),
            shape=SHAPE,
            deadlines=Deadlines(time.monotonic()),
            connections_max=settings.connections_max,
            header_seconds=settings.header_deadline_seconds,
            body_seconds=settings.body_deadline_seconds,
            keep_alive_seconds=settings.keep_alive_seconds,
        )

    def _sweep_outbox(self, conn: Connection) -> int:
        return outbox.evict_delivered(conn, self.settings.outbox_keep_delivered_days * DAY_SECONDS, SWEEP_ROWS)


@contextmanager
def opened(settings: Settings) -> Iterator[Node]:
    """A node on the data folder of the settings, which is this process's alone for as long."""
    folder = DataFolder(settings.data)
    with folder.lock():
        engine = SqliteEngine(folder.database_path)
        migrate(engine)
        node = Node(settings, engine, MasterKey.load(folder.master_key_path, settings.master_key))
        try:
            # The folder is ours, so whoever claimed rows is dead: nobody waits for the end of its lease.
            node.database.write_now(outbox.release_all)
            yield node
        finally:
            node.database.close()


def serve(settings: Settings, when_listening: Callable[[Address], None] = lambda _address: None) -> None:
    """Run a server until it is told to stop; `when_listening` is told where, once nothing can go wrong any more."""
    with opened(settings) as node, lifecycle.listening(settings.listen) as sock:
        when_listening(Address(settings.listen.host, sock.getsockname()[1]))
        lifecycle.serve(node, sock)


def _poll_options(settings: Settings) -> PollOptions:
    return PollOptions(
        interval_seconds=settings.poll_interval_seconds,
        rollout_interval_seconds=settings.rollout_poll_interval_seconds,
        rollout_window_seconds=settings.rollout_window_seconds,
        rate_per_second=settings.poll_rate_per_second,
        burst=settings.poll_burst,
        retry_after_spread_seconds=settings.retry_after_spread_seconds,
        coalesce_seconds=settings.coalesce_milliseconds / 1000,
        recipients_max=settings.tail_cache_max,
    )


def _dispatcher_options(settings: Settings) -> DispatcherOptions:
    return DispatcherOptions(
        interval_seconds=settings.outbox_interval_seconds,
        batch=settings.outbox_batch,
        lease_seconds=settings.outbox_lease_seconds,
        backoff=Backoff(
            settings.outbox_retry_base_seconds,
            settings.outbox_retry_max_seconds,
            settings.outbox_attempts_max,
        ),
    )

