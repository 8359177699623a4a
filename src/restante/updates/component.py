"""Device updates as one component: its routes, the poll, presence and the wrap worker."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import UnsetType

from restante.core.cursor import Position
from restante.database.commit_events import ForeignCommit
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.device_presence import DevicePresence
from restante.delivery.log.log import LogAdvanced, SignalsPublished
from restante.delivery.log.log_reader import LogSource
from restante.delivery.log.signals import Emit, EmitAll, Signal
from restante.delivery.outbox.outbox_sources import OutboxSource
from restante.delivery.retention import Sweep
from restante.identity.devices.device_codes import DeviceCodeKey, DeviceCodeLimits
from restante.identity.devices.device_tokens import DeviceTokens
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.master_key import MasterKey
from restante.identity.people.sign_in import SignIn
from restante.jobs.actions import JobAction
from restante.updates.bulk.outbox_actions import outbox_actions
from restante.updates.bulk.routes import DeviceBulkRoutes, device_job_actions
from restante.updates.devices.approval import Approval
from restante.updates.devices.pages import asset_routes
from restante.updates.devices.routes_apikeys import ApiKeyRoutes
from restante.updates.devices.routes_auth import AuthRoutes
from restante.updates.devices.routes_devices import DeviceRoutes
from restante.updates.devices.routes_fleet import FleetRoutes
from restante.updates.devices.routes_registration import RegistrationRoutes
from restante.updates.devices.routes_self import SelfRoutes
from restante.updates.devices.routes_signals import SignalRoutes
from restante.updates.devices.routes_verification import VerificationRoutes
from restante.updates.fleet.routes_delivery import DeliveryRoutes
from restante.updates.fleet.routes_fleet_list import FleetListRoutes
from restante.updates.fleet.routes_groups import GroupRoutes
from restante.updates.install.routes import InstallRoutes
from restante.updates.pki.assignments import WrapsPending
from restante.updates.pki.issuing import IssueRules
from restante.updates.pki.renewal.calendar import RenewalCalendar
from restante.updates.pki.renewal.routes import ExpiryRoutes
from restante.updates.pki.revocation import issued_serials
from restante.updates.pki.revocation.routes import RevocationRoutes
from restante.updates.pki.routes_authorities import AccountRoutes, AuthorityRoutes
from restante.updates.pki.routes_certificates import CertificateRoutes
from restante.updates.pki.wrapping import WrapWorker
from restante.updates.polling import fast_poll, poll_boost
from restante.updates.polling.fast_poll import FastPoll
from restante.updates.polling.poll import PollOptions, UpdatesPoll
from restante.updates.polling.poll_boost import PollBoostChanged
from restante.updates.polling.routes import PollRoutes
from restante.updates.signal_types import without_aliases
from restante.web.access import AccessControl
from restante.web.component import EventHandler, MetricSample, PollComponent, Service
from restante.web.fast_lane_api import FastHandler
from restante.web.routes import Route

DAY_SECONDS = 86_400
HOUR_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesOptions:
    """This protocol's settings."""

    poll: PollOptions
    base_url: str
    device_codes: DeviceCodeLimits
    refresh_token_days: int
    session_hours: int
    signal_aliases: bool
    # How certificates are issued and renewed, and how long a revocation list is valid.
    issuing: IssueRules
    crl_hours: int


class UpdatesComponent(PollComponent):
    poll: UpdatesPoll

    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        access_control: AccessControl,
        tokens: DeviceTokens,
        reader: LogSource,
        emit: Emit,
        sources: Mapping[str, OutboxSource],
        options: UpdatesOptions,
        emit_all: EmitAll | None = None,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._access_control = access_control
        self._tokens = tokens
        # Signals of applications are sent as they are, whatever their type.
        self._emit_own = emit
        self._emit = emit if options.signal_aliases else without_aliases(emit)
        # Signals to many devices, sent as they are: those of this server have no alias.
        self._emit_all = emit_all or partial(_emit_each, emit)
        self._sources = sources
        self._options = options
        self.presence = DevicePresence(database, self._overdue_at)
        self.poll = UpdatesPoll(reader, self.presence, options.poll)
        self.sign_in = SignIn(database, master_key, session_seconds=options.session_hours * HOUR_SECONDS)
        self.wrap_worker = WrapWorker(database, master_key, self._emit)
        self.renewals = RenewalCalendar(database, master_key, self._emit, options.issuing)

    def routes(self) -> list[Route]:
        database, emit, options = self._database, self._emit, self._options
        approval = Approval(database)
        refresh_key = RefreshKey(self._master_key)
        refresh_seconds = options.refresh_token_days * DAY_SECONDS
        auth = AuthRoutes(
            database,
            self._access_control,
            self._tokens,
            self.sign_in,
            approval,
            refresh_key,
            DeviceCodeKey(self._master_key),
            code_limits=options.device_codes,
            base_url=options.base_url,
            refresh_token_seconds=refresh_seconds,
        )
        verification = VerificationRoutes(database, self._access_control, self.sign_in, approval)
        return [
            *PollRoutes(self.poll).routes(),
            *auth.routes(),
            *verification.routes(),
            *RegistrationRoutes(
                database, self._access_control, self._tokens, refresh_key, refresh_token_seconds=refresh_seconds
            ).routes(),
            *DeviceRoutes(database, self.presence).routes(),
            *DeliveryRoutes(database, self.presence).routes(),
            *ApiKeyRoutes(database).routes(),
            *SelfRoutes(database).routes(),
            *InstallRoutes(database, emit).routes(),
            *CertificateRoutes(database, emit, self._master_key, options.issuing).routes(),
            *ExpiryRoutes(database).routes(),
            *RevocationRoutes(database, self._master_key, options.crl_hours).routes(),
            *AuthorityRoutes(database, emit, self._master_key).routes(),
            *AccountRoutes(database).routes(),
            *SignalRoutes(database, self._emit_own).routes(),
            *FleetListRoutes(database, self.presence).routes(),
            *GroupRoutes(database).routes(),
            *FleetRoutes(database, self._sources).routes(),
            *DeviceBulkRoutes(database, self.job_actions()).routes(),
            *asset_routes(),
        ]

    def job_actions(self) -> list[JobAction[Any]]:
        own = device_job_actions(self._emit, self._emit_all, self._master_key, self._options.issuing)
        return [*own, *outbox_actions()]

    def fast_handlers(self) -> Mapping[bytes, FastHandler]:
        return {fast_poll.TARGET: FastPoll(self.poll, self._tokens)}

    def services(self) -> list[Service]:
        return [
            Service("wrap worker", self.wrap_worker.run, self.wrap_worker.stop, role="wrapping"),
            Service("certificate renewals", self.renewals.run, self.renewals.stop, role="wrapping"),
            Service("presence", self.presence.run, role="api"),
        ]

    def sweeps(self) -> list[Sweep]:
        return [issued_serials.delete_ended]

    async def start(self) -> None:
        await self.catch_up()

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {
            SignalsPublished: self.poll.published_here,
            LogAdvanced: lambda event: self.poll.published_elsewhere(event.device_id, Position(event.ms, event.n)),
            PollBoostChanged: self._set_boost,
            WrapsPending: lambda _: self.wrap_worker.wake(),
            ForeignCommit: lambda _: self.wrap_worker.wake(),
        }

    def _set_boost(self, event: PollBoostChanged) -> None:
        if not isinstance(event.boost, UnsetType):
            self.poll.boost = event.boost

    def _overdue_at(self, device_id: int, seen: float, cursor: bytes) -> float:
        return self.poll.overdue_at(device_id, seen, cursor)

    def recheck(self) -> None:
        super().recheck()
        self.wrap_worker.wake()

    async def catch_up(self) -> None:
        self.poll.boost = await self._database.read(poll_boost.current)

    def metrics(self) -> Iterable[MetricSample]:
        counters = self.poll.counters
        yield MetricSample("restante_polls", counters.idle, ("idle",))
        yield MetricSample("restante_polls", counters.with_signals, ("signals",))
        yield MetricSample("restante_polls", counters.cursor_expired, ("cursor_expired",))
        yield MetricSample("restante_polls", counters.rate_limited, ("rate_limited",))
        yield MetricSample("restante_certificate_renewals", self.renewals.renewed, ("renewed",))
        yield MetricSample("restante_certificate_renewals", self.renewals.failed, ("failed",))
        yield MetricSample("restante_signals_delivered", counters.signals)
        yield MetricSample("restante_parked_polls", self.parked_count)
        yield MetricSample("restante_waits_ended_early", self.poll.ended_early)
        yield MetricSample("restante_known_tails", len(self.poll.waiters.known))

    async def finish(self) -> None:
        await self.presence.try_once()


def _emit_each(emit: Emit, conn: Connection, signals: Mapping[int, Signal]) -> None:
    for device_id, signal in signals.items():
        emit(conn, device_id, signal)
