"""Event tokens as one component: publishing, operators' views, the signer, its keys and their rotation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from restante.database.commit_events import ClusterMessage, ForeignCommit
from restante.database.database import Database
from restante.delivery.retention import Sweep
from restante.events.bulk.event_actions import event_job_actions
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.publishing.publishing import EventsToSign
from restante.events.publishing.routes import AdminEventRoutes
from restante.events.signing import event_keys
from restante.events.signing.key_rotation import KeyRotation, RotationOptions
from restante.events.signing.message_signatures import MessageSignatureOptions, MessageSignatures
from restante.events.signing.routes import EventKeyRoutes
from restante.events.signing.signer import Signer, SignerOptions
from restante.events.signing.signing_pool import SigningPool
from restante.identity.master_key import MasterKey
from restante.jobs.actions import JobAction
from restante.web.component import Component, EventHandler, MessageHandler, MetricSample, Service
from restante.web.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningOptions:
    """`processes` is how many sign at once, 0 for one a core; `is_shared` where several nodes have one database."""

    signer: SignerOptions
    rotation: RotationOptions
    messages: MessageSignatureOptions
    default_alg: str
    processes: int
    is_shared: bool = False


class SigningComponent(Component):
    def __init__(
        self, database: Database, master_key: MasterKey, options: SigningOptions, remote_keys: RemoteKeys
    ) -> None:
        self._database = database
        self._options = options
        pool = SigningPool(options.processes)
        self.signer = Signer(database, master_key, pool, options.signer, is_shared=options.is_shared)
        self.rotation = KeyRotation(database, master_key, options.rotation)
        self.message_signatures = MessageSignatures(
            database, master_key, self.rotation.make_missing, options.messages, remote_keys
        )
        self.published_count = 0

    def routes(self) -> list[Route]:
        keys = EventKeyRoutes(self._database, self.rotation, self._options.default_alg)
        return [*AdminEventRoutes(self._database).routes(), *keys.routes()]

    def job_actions(self) -> list[JobAction[Any]]:
        return event_job_actions()

    async def start(self) -> None:
        # On every node, whatever its roles: receivers read the keys before the first event exists.
        default_alg = self._options.default_alg
        await self.rotation.make_missing(await self._database.read(event_keys.needed_algorithms, default_alg))

    def services(self) -> list[Service]:
        return [
            Service("event signer", self.signer.run, role="signing"),
            Service("event key rotation", self.rotation.run, role="signing"),
        ]

    def sweeps(self) -> list[Sweep]:
        return [event_keys.forget_retired]

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {EventsToSign: self._published, ForeignCommit: lambda _: self.signer.wake()}

    def cluster_message_handlers(self) -> Mapping[type[ClusterMessage], MessageHandler]:
        # The node that published the events has counted them.
        return {EventsToSign: lambda _message, _origin: self.signer.wake()}

    def _published(self, event: EventsToSign) -> None:
        self.published_count += event.rows
        self.signer.wake()

    def recheck(self) -> None:
        self.signer.wake()

    def metrics(self) -> Iterable[MetricSample]:
        counters = self.signer.counters
        yield MetricSample("restante_events_published", self.published_count)
        yield MetricSample("restante_events_signed", counters.signed)
        yield MetricSample("restante_events_sign_failures", counters.failed)
        yield MetricSample("restante_event_signing_seconds", counters.cpu_seconds)
