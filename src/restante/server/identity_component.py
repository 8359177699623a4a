"""Tokens of devices, collectors and clients, as one component: verified tokens are cached, revocations drop them."""

from collections.abc import Iterable, Mapping

from restante.database.clocks.clock import DatabaseClock
from restante.database.commit_events import ForeignCommit
from restante.database.database import Database
from restante.delivery.retention import Sweep
from restante.identity import idempotency, signing_keys
from restante.identity.callers import ClientRevoked, CollectorRevoked, DeviceRevoked
from restante.identity.clients import client_tokens
from restante.identity.clients.client_tokens import ClientTokens
from restante.identity.clients.collector_tokens import CollectorTokens
from restante.identity.clients.external_clients import ExternalClients
from restante.identity.devices import device_codes, refresh_tokens, registration_codes
from restante.identity.devices.device_codes import DeviceCodeKey
from restante.identity.devices.device_tokens import DeviceTokens
from restante.identity.idempotency_limits import IdempotencyKeeper, IdempotencyLimits
from restante.identity.jwt.issuers import ExternalIssuers
from restante.identity.master_key import MasterKey
from restante.identity.people import invitations, sessions, sign_in_limits
from restante.identity.reseal.key_change import MasterKeyChanging
from restante.identity.reseal.key_watch import KeyWatch
from restante.identity.signing_keys import KeysRotated, SigningKeys
from restante.server.access.routes_command_line import CommandLineRoutes
from restante.server.access.routes_keys import KeyRoutes
from restante.server.access.routes_people import PeopleRoutes
from restante.server.config.options import updates_options
from restante.server.config.settings import Settings
from restante.server.engines import master_key_source
from restante.updates.component import HOUR_SECONDS
from restante.web.component import Component, EventHandler, MetricSample, Service, handled_by_catch_up
from restante.web.routes import Route


class IdentityComponent(Component):
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        settings: Settings,
        clock: DatabaseClock,
        *,
        is_binding_required: bool,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._settings = settings
        self.key_watch = KeyWatch(database, master_key, master_key_source(settings))
        self.signing_keys = SigningKeys(database, master_key)
        self.device_tokens = DeviceTokens(
            database,
            self.signing_keys,
            ExternalIssuers(settings.issuers),
            access_token_seconds=settings.access_token_seconds,
            cache_entries_max=settings.token_cache_max,
            clock=clock,
        )
        self.collector_tokens = CollectorTokens(database, clock=clock)
        external_clients = ExternalClients(database, ExternalIssuers(settings.authorization_servers))
        self.client_tokens = ClientTokens(
            database, external=external_clients, is_binding_required=is_binding_required, clock=clock
        )

        limits = IdempotencyLimits(settings.idempotency_keys_per_caller_max, settings.idempotency_bytes_per_caller_max)
        self.idempotency_keeper = IdempotencyKeeper(database, limits)

    def services(self) -> list[Service]:
        return [
            Service("idempotency keys", self.idempotency_keeper.run, role="retention"),
            Service("master key", self.key_watch.run),
        ]

    def routes(self) -> list[Route]:
        options = updates_options(self._settings)
        command_line = CommandLineRoutes(
            self._database,
            DeviceCodeKey(self._master_key),
            code_limits=options.device_codes,
            base_url=options.base_url,
            session_seconds=options.session_hours * HOUR_SECONDS,
        )
        return [
            *PeopleRoutes(self._database).routes(),
            *KeyRoutes(self._database).routes(),
            *command_line.routes(),
        ]

    def sweeps(self) -> list[Sweep]:
        return [
            sessions.delete_expired,
            invitations.delete_expired,
            sign_in_limits.delete_expired,
            device_codes.delete_expired,
            registration_codes.delete_expired,
            refresh_tokens.delete_expired,
            signing_keys.delete_expired,
            client_tokens.delete_expired,
            idempotency.delete_expired,
        ]

    async def start(self) -> None:
        await self.device_tokens.start()

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {
            DeviceRevoked: lambda event: self.device_tokens.forget_device(event.device_id),
            CollectorRevoked: lambda _: self.collector_tokens.forget_all(),
            ClientRevoked: lambda _: self.client_tokens.forget_all(),
            KeysRotated: handled_by_catch_up,
            MasterKeyChanging: handled_by_catch_up,
            ForeignCommit: handled_by_catch_up,
        }

    def forget_all(self) -> None:
        self.device_tokens.forget_all()
        self.collector_tokens.forget_all()
        self.client_tokens.forget_all()

    async def catch_up(self) -> None:
        await self.device_tokens.catch_up()
        await self.collector_tokens.catch_up()
        await self.client_tokens.catch_up()
        self.key_watch.wake()

    def recheck(self) -> None:
        self.key_watch.wake()

    def unavailable(self) -> list[str]:
        return [] if self.key_watch.problem is None else ["master key"]

    def metrics(self) -> Iterable[MetricSample]:
        yield MetricSample("restante_cached_tokens", self.device_tokens.cached_count)
