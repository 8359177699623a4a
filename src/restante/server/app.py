"""The composition root: it builds a node from the settings, on the engine that they choose.

    settings ─▶ Node: database · access control · components ─▶ application and fast lane ─▶ lifecycle.serve

A node knows its components only by their interface (`web/component.py`). Adding one means adding it to `_components`.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace

import structlog
from starlette.applications import Starlette

from restante.commands.component import CommandsComponent
from restante.commands.lifecycle.secret_params import seal_stored
from restante.commands.sites.collectors import SecretBox
from restante.console.component import ConsoleComponent
from restante.console.live import Live
from restante.console.pages import ConsoleParts, PageSet
from restante.console.rates import Rates
from restante.console.rendering.rendering import Rendering
from restante.console.views.access.keys import KeyPages
from restante.console.views.access.people import PeoplePages
from restante.console.views.approvals import ApprovalPages
from restante.console.views.audit import AuditPages
from restante.console.views.bulk.jobs import JobPages
from restante.console.views.bulk.rollouts import RolloutPages
from restante.console.views.events.clients import ClientPages
from restante.console.views.events.events import EventPages
from restante.console.views.overview import OverviewPages
from restante.console.views.saved_filters import SavedFilterPages
from restante.console.views.sites.commands import CommandPages
from restante.console.views.sites.sites import SitePages
from restante.console.views.system import SystemPages
from restante.console.views.updates.certificates import CertificatePages
from restante.console.views.updates.devices import DevicePages
from restante.console.views.updates.fleet import FleetPages
from restante.console.views.updates.outbox import OutboxPages
from restante.database import copy_tables
from restante.database.clocks.clock import DatabaseClock
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.migrate import migrate
from restante.delivery.retention import Retention
from restante.events.clients.access import AccessOptions
from restante.events.portal.component import PortalAccess
from restante.identity.master_key import MasterKey
from restante.identity.people import users
from restante.identity.signing_keys import unlock
from restante.server import lifecycle
from restante.server.background_services import every
from restante.server.bulk.component import BulkComponent
from restante.server.cluster.cluster import Cluster
from restante.server.cluster.node_registry import NodeIdentity, NodeLoad, NodeRegistry
from restante.server.cluster.workers import serve_workers
from restante.server.component_list import ComponentList
from restante.server.config.options import (
    access_options,
    commands_options,
    scopes_needed,
    updates_options,
)
from restante.server.config.setting_types import Address
from restante.server.config.settings import Settings
from restante.server.console_facts import server_facts
from restante.server.data_folder import DataFolder
from restante.server.database_wait import DatabaseWait, StoppedWhileWaiting
from restante.server.docs.openapi import DocsRoutes
from restante.server.engines import engine_of, master_key_source, steady_clock_of
from restante.server.event_components import event_components
from restante.server.http.deadlines import SLOT_SECONDS, Deadlines
from restante.server.http.fast_lane import FastLaneState
from restante.server.http.post_templates import PostTemplates
from restante.server.http.request_templates import RequestTemplates
from restante.server.http.tls.files import tls_files
from restante.server.identity_component import IdentityComponent
from restante.server.monitoring.health import HealthRoutes
from restante.server.monitoring.metrics import Metrics, MetricsOptions
from restante.server.outbox_component import OutboxComponent
from restante.server.redis_component import RedisComponent
from restante.updates.component import UpdatesComponent
from restante.updates.response_format import RESPONSE_FORMAT
from restante.updates.signal_types import without_aliases
from restante.web.access import AccessControl
from restante.web.application import build_application
from restante.web.client_cert import ClientCertificates
from restante.web.component import Component, MetricSample, Service
from restante.web.origin import Senders
from restante.web.routes import Route

log = structlog.get_logger()

_COMPACT = "VACUUM;\nPRAGMA wal_checkpoint(TRUNCATE);\n"

CLOSE_SECONDS = 10.0
HANGING_CLOSE_SECONDS = 0.1


class Node:
    """One server process: all its components, connected, not yet running."""

    def __init__(self, settings: Settings, engine: Engine, database: Database, master_key: MasterKey) -> None:
        self.settings = settings
        self.master_key = master_key
        self.database = database
        # The database's time: its clock may be another machine's.
        self.steady_clock = steady_clock_of(engine)
        self.clock = DatabaseClock() if self.steady_clock is None else DatabaseClock(self.steady_clock.seconds)
        self.started_at = int(self.clock() * 1000)
        self.client_certificates = ClientCertificates(settings.trusted_proxies)
        self.components = ComponentList(self._components(is_shared=engine.is_shared))
        sweeps = [sweep for component in self.components for sweep in component.sweeps()]
        self.retention = Retention(database, sweeps)
        self.cluster = None
        if engine.channel() is not None:
            self.cluster = Cluster(engine, database, self.components, settings.roles, self.clock)
        self.lane = self._lane()
        # The monotonic time by which a stop must be over; set when it begins.
        self.stop_by = math.inf
        self.metrics = Metrics(self.components, self._samples, _metrics_options(settings))

    def _components(self, *, is_shared: bool) -> list[Component]:
        """The parts of the node. Earlier components handle commit events first, and close first."""
        settings, database, master_key = self.settings, self.database, self.master_key
        access = access_options(settings)
        self._add_access(access)
        self.outbox = OutboxComponent(database, settings)
        self.redis = RedisComponent(settings.redis_url, database, master_key)
        self.updates = self._updates()
        self.redis.invalidate_for(self.updates.poll)
        self.commands = self._commands(is_shared=is_shared)
        parts = event_components(
            settings,
            database,
            master_key,
            self._portal_access(),
            is_shared=is_shared,
        )
        self.events, self.signing, self.client_access = parts.events, parts.signing, parts.client_access
        self.push, self.shared_signals = parts.push, parts.shared_signals
        self.access_control.report_refusals_to(self.client_access.refusals.record_token)
        components = [
            self.outbox,
            self.updates,
            self.redis,
            self.identity,
            self.commands,
            *parts.in_order(),
            self._console(),
        ]
        actions = [action for component in components for action in component.job_actions()]
        self.bulk = BulkComponent(self.database, actions, self.settings.jobs_keep_days)
        return [*components, self.bulk]

    def _portal_access(self) -> PortalAccess:
        tokens, certificates = self.identity.client_tokens, self.client_certificates
        return PortalAccess(self.access_control, tokens, certificates, self.settings.public_url)

    def _updates(self) -> UpdatesComponent:
        return UpdatesComponent(
            self.database,
            self.master_key,
            self.access_control,
            self.identity.device_tokens,
            self.redis.reader,
            self.outbox.emit,
            self.outbox.sources(),
            updates_options(self.settings),
            self.outbox.emit_all,
        )

    def _commands(self, *, is_shared: bool) -> CommandsComponent:
        return CommandsComponent(
            self.database,
            self.master_key,
            self.identity.collector_tokens,
            commands_options(self.settings, is_shared=is_shared),
            self.redis.rate_limits,
            self.clock,
        )

    def _add_access(self, access: AccessOptions) -> None:
        """People, tokens and the decision who may call what."""
        settings, database = self.settings, self.database
        self.identity = IdentityComponent(
            database, self.master_key, settings, self.clock, is_binding_required=access.is_binding_required
        )
        self.access_control = AccessControl(
            database,
            self.identity.device_tokens,
            self.identity.collector_tokens,
            self.identity.client_tokens,
            self.client_certificates,
            scopes_needed(settings),
            settings.public_url,
            Senders(self.client_certificates.is_trusted, settings.forwarded_header),
        )

    def _console(self) -> ConsoleComponent:
        """The pages for operators. Each subject is one entry in the list of page sets."""
        parts = ConsoleParts(
            self.database,
            self.access_control,
            self.updates.sign_in,
            Rendering(self.clock),
            Live(),
            self.settings.console_confirm_minutes * 60,
        )
        facts, commands = server_facts(self), self.commands
        self.rates = Rates(facts, parts.live)
        emit = self.outbox.emit if self.settings.signal_aliases else without_aliases(self.outbox.emit)
        page_sets: list[PageSet] = [
            SystemPages(facts),
            FleetPages(self.updates.presence, lambda: self.bulk.actions),
            DevicePages(self.updates.presence, emit, self.outbox.emit),
            CertificatePages(emit, self.master_key, updates_options(self.settings).issuing),
            OutboxPages(self.outbox.sources()),
            CommandPages(commands.trail, commands.options.for_creation(commands.box), commands.options.for_claims()),
            SitePages(commands.trail, commands.box, commands.options.rates, commands.options.telemetry_history_records),
            ClientPages(self.events.presence.newest_ms),
            EventPages(self.database, self.signing.rotation),
            AuditPages(commands.trail, commands.heads.remembered),
            ApprovalPages(lambda: self.bulk.actions),
            JobPages(lambda: self.bulk.actions),
            RolloutPages(lambda: self.bulk.actions),
            PeoplePages(),
            KeyPages(),
            SavedFilterPages(),
        ]
        return ConsoleComponent(parts, self.rates, [OverviewPages(page_sets, self.rates, facts), *page_sets])

    def identity_in_cluster(self) -> NodeIdentity:
        name = "" if self.cluster is None else self.cluster.name
        settings = self.settings
        return NodeIdentity.of_this_process(name, str(settings.listen), str(settings.roles), self.started_at)

    def load(self) -> NodeLoad:
        rates = self.rates
        return NodeLoad(self.lane.connections, self.components.parked_count, rates.requests_per_second, rates.shared())

    @property
    def _serves_api(self) -> bool:
        return "api" in self.settings.roles

    def routes(self) -> list[Route]:
        health = HealthRoutes(self.database, self.settings.data, self.settings.roles, self.unavailable)
        routes = [
            *(route for component in self.components for route in component.routes()),
            *health.routes(),
            *self.metrics.routes(),
        ]
        if not self._serves_api:
            routes = [route for route in routes if route.tag == "server"]
        return [*routes, *DocsRoutes(routes).routes()]

    def pages(self) -> list[Route]:
        """Routes for people with a browser, which the OpenAPI document does not list."""
        return [route for component in self.components for route in component.pages()] if self._serves_api else []

    def unavailable(self) -> list[str]:
        return [name for component in self.components for name in component.unavailable()]

    def application(self, *, with_lifespan: bool = True) -> Starlette:
        return build_application(
            [*self.routes(), *self.pages()],
            self.access_control,
            RESPONSE_FORMAT,
            lifecycle.lifespan_of(self) if with_lifespan else None,
            self.metrics.observe,
            body_bytes_max=self.settings.body_bytes_max,
        )

    def services(self) -> list[Service]:
        """The background services of this process, by its roles; those with work to finish come first."""
        return [service for service in self._all_services() if not service.role or service.role in self.settings.roles]

    def _all_services(self) -> list[Service]:
        deadlines, components = self.lane.deadlines, self.components
        return [
            *(service for component in components for service in component.services()),
            Service("retention", self.retention.run, role="retention"),
            Service("catching up", components.catch_up),
            Service("deadlines", every(SLOT_SECONDS, lambda: deadlines.tick(time.monotonic()))),
            Service("clock", every(1.0, lambda: components.tick(self.clock()))),
            Service("buckets", every(10.0, lambda: components.forget_full_buckets(time.monotonic())), role="api"),
            *([Service("notices", self.cluster.sweep), self._registration()] if self.cluster else []),
            *([Service("saving the clock", every(1.0, self.steady_clock.save))] if self.steady_clock else []),
        ]

    def _registration(self) -> Service:
        registry = NodeRegistry(self.database, self.identity_in_cluster, self.load)
        return Service("node registry", registry.run)

    def _lane(self) -> FastLaneState:
        settings = self.settings
        components: Iterable[Component] = self.components if "api" in settings.roles else ()
        gets = {target: handler for each in components for target, handler in each.fast_handlers().items()}
        posts = [post for each in components for post in each.fast_posts()]
        polls = [poll for each in components for poll in each.fast_polls()]
        return FastLaneState(
            templates=RequestTemplates(gets),
            post_templates=PostTemplates(posts, polls, settings.body_bytes_max),
            client_certificates=self.client_certificates,
            response_format=RESPONSE_FORMAT,
            deadlines=Deadlines(time.monotonic()),
            connections_max=settings.connections_max,
            connections_per_address_max=settings.connections_per_address_max,
            header_seconds=settings.header_deadline_seconds,
            body_seconds=settings.body_deadline_seconds,
            keep_alive_seconds=settings.keep_alive_seconds,
        )

    def _samples(self) -> Iterator[MetricSample]:
        """The metrics that belong to no component."""
        lane, cluster = self.lane, self.cluster
        yield MetricSample("restante_connections", lane.connections)
        limits = lane.limits
        yield MetricSample("restante_connections_refused", sum(limits.refused.values()))
        yield MetricSample("restante_connections_refused_address", limits.refused["address"])
        yield MetricSample("restante_connections_refused_descriptors", limits.refused["descriptors"])
        yield MetricSample("restante_idle_connections_closed", limits.idle_closed)
        yield MetricSample("restante_slow_senders_cut", lane.slow_senders_cut)
        yield MetricSample("restante_oversized_requests", lane.oversized_requests)
        yield MetricSample("restante_fast_lane_requests", lane.fast_requests)
        found = cluster.found_by_scan_count if cluster is not None else 0
        received = cluster.received_count if cluster is not None else 0
        yield MetricSample("restante_notices", received - found, ("told",))
        yield MetricSample("restante_notices", found, ("found",))
        yield MetricSample("restante_commits", self.database.commits)
        yield MetricSample("restante_writes", self.database.writes)
        ahead = 0.0 if self.steady_clock is None else self.steady_clock.seconds_ahead()
        yield MetricSample("restante_clock_ahead_seconds", ahead)
        yield MetricSample("restante_seconds_since_write", time.monotonic() - self.database.wrote_at)

    def release_leases(self) -> None:
        """Release the leases of a former process; only where no other process can be running."""
        for component in self.components:
            self.database.write_now(component.release_leases)

    def close(self) -> None:
        """Release what the components hold. The caller closes the database."""
        for component in self.components:
            component.release()


@contextmanager
def _closing_in_time(database: Database) -> Iterator[Database]:
    """Close the database when the block has ended. A database that hangs is not waited for."""
    try:
        yield database
    finally:
        if not database.close(HANGING_CLOSE_SECONDS if database.is_hanging else CLOSE_SECONDS):
            log.error("the database does not answer, its connections were abandoned")


@contextmanager
def _checkpointed(engine: Engine) -> Iterator[None]:
    """When the block has ended cleanly, the file of an embedded database has all data: it can be copied alone."""
    yield
    try:
        if not engine.checkpoint():
            log.warning("another process reads the database: not all data could be moved into the database file")
    except DatabaseError as error:
        # Nothing is lost: the next start finds the rest beside the file.
        log.warning("not all data could be moved into the database file", error=str(error))


def _metrics_options(settings: Settings) -> MetricsOptions:
    return MetricsOptions(settings.metrics_token, settings.metrics_listen is not None, settings.metrics_tenants)


@contextmanager
def opened(settings: Settings) -> Iterator[Node]:
    """A node on the database of the settings. On SQLite, this process locks the data folder."""
    folder = DataFolder(settings.data)
    engine = engine_of(settings)
    folder.create()
    with nullcontext() if engine.is_shared else folder.lock(), _checkpointed(engine):
        if not engine.is_shared:
            folder.refuse_key_without_database()
        migrate(engine)
        with _closing_in_time(Database(engine, limits_transactions=True)) as database:
            database.read_now(copy_tables.refuse_unfinished)
            master_key = unlock(database, master_key_source(settings))
            seal_stored_params(engine, database, master_key)
            with closing(Node(settings, engine, database, master_key)) as node:
                node.identity.key_watch.register(is_alone=not engine.is_shared)
                if not engine.is_shared:
                    # This process holds the lock of the folder: a process that leased rows has ended.
                    node.release_leases()
                # Not before: the work of a start may take long.
                database.set_deadline(settings.database_deadline_seconds)
                with _saved_clock(node):
                    yield node


@contextmanager
def _saved_clock(node: Node) -> Iterator[None]:
    """Keep the time of an embedded database for the next process, however soon this one ends."""
    clock = node.steady_clock
    if clock is None:
        yield
        return
    clock.save()
    try:
        yield
    finally:
        clock.save()


def serve(
    settings: Settings, when_listening: Callable[[Address, bool], None] = lambda _address, _has_users: None
) -> int:
    """Run a server until a stop signal, and return the exit code.

    `when_listening` is called once, when clients can connect, with the address and whether there are users.
    """
    # Until the server listens there is nothing to reload. Unhandled, the signal would end the process.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    files = tls_files(settings)
    if files is not None:
        files.context()  # fail here, before anything is started, if the files cannot be used
    if settings.redis_url is not None and settings.redis_url.tls is not None:
        settings.redis_url.tls.context()
    if settings.metrics_listen is not None:
        with lifecycle.listening(settings.metrics_listen):
            pass  # fail here if the address cannot be used
    with lifecycle.listening(settings.listen) as sock, ExitStack() as stack:
        address = Address(settings.listen.host, sock.getsockname()[1])
        settings = replace(settings, listen=address)
        wait = DatabaseWait(settings, sock)
        try:
            if settings.workers > 1:
                has_users = wait.run_when_reachable(lambda: prepare(settings))
                return serve_workers(settings, sock, opened, lambda: when_listening(address, has_users))
            node = wait.run_when_reachable(lambda: stack.enter_context(opened(settings)))
        except StoppedWhileWaiting:
            return 0
        has_users = bool(node.database.read_now(users.list_all))
        lifecycle.serve(node, sock, lambda: when_listening(address, has_users))
    return 0


def prepare(settings: Settings) -> bool:
    """Prepare for the workers: the newest schema, and the master key. Return whether there are users."""
    folder = DataFolder(settings.data)
    engine = engine_of(replace(settings, database_writers=1))
    folder.create()
    migrate(engine)
    with closing(Database(engine)) as database:
        unlock(database, master_key_source(settings))
        return bool(database.read_now(users.list_all))


def seal_stored_params(engine: Engine, database: Database, master_key: MasterKey) -> None:
    """Seal secret parameters that an older version stored in plain text, once, before the server serves.

    The embedded engine is compacted afterwards: pages that the older rows used would keep their text. PostgreSQL
    overwrites such pages by itself, with VACUUM.
    """
    sealed = seal_stored(database, SecretBox(master_key))
    if not sealed:
        return
    log.info("sealed secret parameters of an older version", rows=sealed)
    if engine.is_shared:
        return
    try:
        with closing(engine.connect(writable=True)) as conn:
            conn.run_script(_COMPACT)
    except DatabaseError as error:
        log.warning("free pages may still hold old secret parameters: stop the server and run VACUUM", error=str(error))
