"""The composition root: it puts the parts together, on the engine that the settings choose.

settings ─▶ Node: database · identity · delivery · updates ─▶ application and fast lane ─▶ lifecycle.serve
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace

from starlette.applications import Starlette

from restante.commands.parts import CommandsParts
from restante.database import copying
from restante.database.clock import DatabaseClock
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.migrate import migrate
from restante.delivery import log as signal_log
from restante.delivery import outbox, receipts
from restante.delivery.alarm import Alarm
from restante.delivery.dispatcher import Dispatcher
from restante.delivery.presence import Presence
from restante.delivery.retention import Retention
from restante.delivery.runner import Runner
from restante.delivery.signals import Signal
from restante.delivery.sources import Source, own_source
from restante.events import push_queue
from restante.events.access_parts import EventAccess
from restante.events.parts import EventsOptions, EventsParts
from restante.events.portal import PortalRoutes
from restante.events.push_parts import EventPush
from restante.events.signals_parts import SharedSignals
from restante.identity import retention as identity_retention
from restante.identity import users
from restante.identity.client_tokens import ClientTokens
from restante.identity.collector_tokens import CollectorTokens
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey, MasterKeySource
from restante.identity.outside_clients import OutsideClients
from restante.identity.signing_keys import SigningKeys, unlock
from restante.server import lifecycle
from restante.server.data_folder import DataFolder
from restante.server.database_wait import DatabaseWait, ToldToStop
from restante.server.deadlines import SLOT_SECONDS, Deadlines
from restante.server.engines import engine_of
from restante.server.fast_lane import LaneShared
from restante.server.health import HealthRoutes
from restante.server.metrics import Metrics, MetricsSources
from restante.server.neighbours import Neighbours
from restante.server.openapi import DocsRoutes
from restante.server.options import (
    access_options,
    commands_options,
    dispatcher_options,
    events_options,
    outside_outbox_pace,
    own_outbox_pace,
    poll_options,
    portal_facts,
    push_options,
    signals_options,
)
from restante.server.outside_outboxes import OutsideOutboxes
from restante.server.post_forms import PostForms
from restante.server.redis_parts import RedisParts
from restante.server.request_forms import RequestForms
from restante.server.services import Service, every
from restante.server.setting_kinds import Address
from restante.server.settings import Settings
from restante.server.tls import tls_files
from restante.server.workers import serve_workers
from restante.updates import fast_poll, rollout
from restante.updates.fast_poll import FastPoll
from restante.updates.poll import Poll
from restante.updates.routes import UpdatesParts, updates_routes
from restante.updates.wire import SHAPE
from restante.updates.wrapping import WrapWorker
from restante.web.access import Gate
from restante.web.application import build_application
from restante.web.peer import Peers
from restante.web.routes import Route

DAY_SECONDS = 86_400
SWEEP_ROWS = 1000


class Node:
    """One server process: every part of it, connected, not yet running."""

    def __init__(self, settings: Settings, engine: Engine, database: Database, master_key: MasterKey) -> None:
        self.settings = settings
        self.master_key = master_key
        self.database = database
        # The database's time, where its clock is another machine's.
        self.clock = DatabaseClock()
        self.signing_keys = SigningKeys(self.database, master_key)
        self.tokens = DeviceTokens(
            self.database,
            self.signing_keys,
            OutsideIssuers(settings.issuers),
            access_token_seconds=settings.access_token_seconds,
            cache_entries_max=settings.token_cache_max,
            clock=self.clock,
        )
        self.collector_tokens = CollectorTokens(self.database, clock=self.clock)
        access = access_options(settings)
        self.peers = Peers(settings.trusted_proxies)
        outside = OutsideClients(self.database, OutsideIssuers(settings.authorization_servers))
        self.client_tokens = ClientTokens(
            self.database, outside=outside, is_binding_required=access.is_binding_required, clock=self.clock
        )
        self.gate = Gate(self.database, self.tokens, self.collector_tokens, self.client_tokens, self.peers)
        self.event_access = EventAccess(self.database, self.peers, access)
        events = events_options(settings, is_shared=engine.is_shared)
        self.events = EventsParts(self.database, master_key, self.client_tokens, events)
        self.event_push = EventPush(
            self.database, master_key, push_options(settings), events.bases(), settings.public_url
        )
        self.signals = self._signals(events)
        self.redis = RedisParts(settings.redis_url, self.database)
        self.commands = CommandsParts(
            self.database,
            master_key,
            self.collector_tokens,
            commands_options(settings, is_shared=engine.is_shared),
            self.redis.windows,
            self.clock,
        )
        self.presence = Presence(self.database)
        self.poll = Poll(self.redis.reader, self.presence, poll_options(settings))
        self.redis.ring_for(self.poll)
        self.dispatcher = Dispatcher(self.database, dispatcher_options(settings), self.append_all)
        self.outside_outboxes = OutsideOutboxes(
            settings.outbox,
            self.database,
            dispatcher_options(settings),
            outside_outbox_pace(settings),
            self.append_all,
            settings.outbox_keep_delivered_days,
        )
        self.runner = Runner(self.dispatcher, own_outbox_pace(settings))
        self.wrap_worker = WrapWorker(self.database, master_key, self.emit)
        self.retention = Retention(
            self.database,
            [
                self._sweep_outbox,
                self._sweep_receipts,
                identity_retention.forget_expired,
                *self.commands.sweeps(),
                *self.event_access.sweeps(),
                *self.events.sweeps(),
            ],
        )
        self.foreign_commits = Alarm()
        self.neighbours = Neighbours(self, engine) if engine.channel() is not None else None
        self.lane = self._lane()
        self.metrics = self._metrics()

    def _metrics(self) -> Metrics:
        return Metrics(
            MetricsSources(
                self.database,
                self.poll,
                self.dispatcher,
                self.lane,
                self.tokens,
                self.commands.totals,
                self.outside_outboxes,
                self.events,
                self.event_access.totals,
                self.event_push,
                self.commands.poll,
                self.redis,
                self.neighbours,
            )
        )

    def _signals(self, events: EventsOptions) -> SharedSignals:
        return SharedSignals(
            self.database,
            self.master_key,
            self.event_push.pusher.client,
            self.events.presence,
            self.events.totals,
            events.poll,
            signals_options(self.settings),
        )

    def append(self, conn: Connection, device_id: int, signals: list[Signal]) -> object:
        return signal_log.append(conn, device_id, signals, self.settings.log_keep_signals)

    def append_all(self, conn: Connection, signals: Mapping[int, list[Signal]]) -> object:
        return signal_log.append_all(conn, signals, self.settings.log_keep_signals)

    def emit(self, conn: Connection, device_id: int, signal: Signal) -> None:
        """How changes tell devices: through the outbox, or straight to the log where so configured."""
        if self.settings.direct_signals:
            outbox.emit_directly(conn, device_id, signal, self.append_all)
        else:
            outbox.enqueue(conn, device_id, signal)

    def sources(self) -> dict[str, Source]:
        """The outboxes there are, by name; the server's own first."""
        own = own_source(self.database, self.runner.ring)
        return {source.name: source for source in (own, *self.outside_outboxes.sources())}

    def routes(self) -> list[Route]:
        parts = UpdatesParts(
            database=self.database,
            gate=self.gate,
            tokens=self.tokens,
            master_key=self.master_key,
            poll=self.poll,
            emit=self.emit,
            sources=self.sources(),
            public_url=self.settings.public_url,
            refresh_token_days=self.settings.refresh_token_days,
            session_hours=self.settings.session_hours,
        )
        routes = [
            *updates_routes(parts),
            *self.commands.routes(),
            *self.event_access.routes(),
            *self.events.routes(),
            *self.event_push.routes(),
            *self.signals.routes(),
            *PortalRoutes(portal_facts(self.settings)).routes(),
            *HealthRoutes(self.database, self.settings.data, self.settings.roles, self._away).routes(),
            *self.metrics.routes(),
        ]
        if "api" not in self.settings.roles:
            routes = [route for route in routes if route.tag == "server"]
        return [*routes, *DocsRoutes(routes).routes()]

    def _away(self) -> list[str]:
        """What the server goes on without, for the health probe."""
        return [*self.redis.away(), *(f"outbox {name}" for name in self.outside_outboxes.away())]

    def application(self, *, with_lifespan: bool = True) -> Starlette:
        return build_application(
            self.routes(),
            self.gate,
            SHAPE,
            lifecycle.lifespan_of(self) if with_lifespan else None,
            self.metrics.observe,
            self.settings.body_bytes_max,
        )

    def services(self) -> list[Service]:
        """What this process runs in the background; those that have work to finish first."""
        return [service for service in self._all_services() if self.settings.roles.run(service.name)]

    def _all_services(self) -> list[Service]:
        deadlines = self.lane.deadlines
        return [
            Service("dispatcher", self.runner.run, self.runner.stop),
            *self.outside_outboxes.services(),
            *self.redis.services(),
            Service("wrap worker", self.wrap_worker.run, self.wrap_worker.stop),
            Service("presence", self.presence.run),
            Service("retention", self.retention.run),
            Service("catching up", self._catch_up),
            Service("deadlines", every(SLOT_SECONDS, lambda: deadlines.tick(time.monotonic()))),
            Service("clock", every(1.0, self._tick)),
            Service("buckets", every(60.0, self._forget_full_buckets)),
            *([Service("notices", self.neighbours.sweep)] if self.neighbours else []),
            *(Service(name, run) for name, run in self.commands.services()),
            *(Service(name, run) for name, run in self.events.services()),
            Service("event push", self.event_push.pusher.run, self.event_push.pusher.stop),
        ]

    def _tick(self) -> None:
        now = self.clock()
        self.poll.tick(now)
        self.commands.tick(now)
        self.events.tick(now)
        self.signals.tick(now)

    def _forget_full_buckets(self) -> None:
        for buckets in (self.poll.buckets, self.events.poll.buckets, self.signals.poll.buckets):
            buckets.forget_full(time.monotonic())

    async def _catch_up(self) -> None:
        """When another process, a command beside the server, has changed something: look at what it may have been."""
        while True:
            await self.foreign_commits.wait()
            await self.tokens.catch_up()
            await self.commands.catch_up()
            await self.events.catch_up()
            self.poll.rollout = await self.database.read(rollout.current)

    def _lane(self) -> LaneShared:
        settings = self.settings
        is_api = "api" in settings.roles
        polls = {fast_poll.TARGET: FastPoll(self.poll, self.tokens), **self.commands.hot()}
        posts = PostForms(self.commands.hot_posts(), self.events.hot_polls(), settings.body_bytes_max)
        return LaneShared(
            forms=RequestForms(polls if is_api else {}),
            posts=posts if is_api else PostForms([]),
            peers=self.peers,
            shape=SHAPE,
            deadlines=Deadlines(time.monotonic()),
            connections_max=settings.connections_max,
            header_seconds=settings.header_deadline_seconds,
            body_seconds=settings.body_deadline_seconds,
            keep_alive_seconds=settings.keep_alive_seconds,
        )

    def _sweep_outbox(self, conn: Connection) -> int:
        return outbox.evict_delivered(conn, self.settings.outbox_keep_delivered_days * DAY_SECONDS, SWEEP_ROWS)

    def _sweep_receipts(self, conn: Connection) -> int:
        # Never at once: a dispatcher elsewhere may be asleep over a row whose receipt this is.
        kept_days = max(1, self.settings.outbox_keep_delivered_days)
        return receipts.evict_settled(conn, kept_days * DAY_SECONDS, SWEEP_ROWS)

    def close(self) -> None:
        """End what is its own; the database is whoever's made it."""
        self.outside_outboxes.close()


@contextmanager
def opened(settings: Settings) -> Iterator[Node]:
    """A node on the database of the settings. With an embedded one, the data folder is this process's alone."""
    folder = DataFolder(settings.data)
    engine = engine_of(settings)
    folder.create()
    with nullcontext() if engine.is_shared else folder.lock():
        migrate(engine)
        with closing(Database(engine)) as database:
            database.read_now(copying.refuse_unfinished)
            master_key = unlock(database, MasterKeySource(folder.master_key_path, settings.master_key))
            with closing(Node(settings, engine, database, master_key)) as node:
                if not engine.is_shared:
                    # The folder is ours, so whoever claimed rows is dead: nobody waits for the end of its lease.
                    database.write_now(outbox.release_all)
                    database.write_now(push_queue.release_all)
                yield node


def serve(
    settings: Settings, when_listening: Callable[[Address, bool], None] = lambda _address, _has_users: None
) -> int:
    """Run a server until it is told to stop; the exit code. `when_listening` is told where, and whether there are any
    users, once nothing can go wrong any more."""
    files = tls_files(settings)
    if files is not None:
        files.context()  # what cannot be used is said here, before anything is started
    if settings.redis_url is not None and settings.redis_url.tls is not None:
        settings.redis_url.tls.context()
    with lifecycle.listening(settings.listen) as sock, ExitStack() as stack:
        address = Address(settings.listen.host, sock.getsockname()[1])
        wait = DatabaseWait(settings, sock)
        try:
            if settings.workers > 1:
                when_listening(address, wait.until_done(lambda: prepare(settings)))
                return serve_workers(settings, sock, opened)
            node = wait.until_done(lambda: stack.enter_context(opened(settings)))
        except ToldToStop:
            return 0
        when_listening(address, bool(node.database.read_now(users.list_all)))
        lifecycle.serve(node, sock)
    return 0


def prepare(settings: Settings) -> bool:
    """Make what workers find made: the newest schema, and the master key. Whether there are users."""
    folder = DataFolder(settings.data)
    engine = engine_of(replace(settings, database_writers=1))
    folder.create()
    migrate(engine)
    with closing(Database(engine)) as database:
        unlock(database, MasterKeySource(folder.master_key_path, settings.master_key))
        return bool(database.read_now(users.list_all))
