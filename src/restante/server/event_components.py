"""Builds the components of event polling from the settings, connected to each other."""

from dataclasses import dataclass

from restante.database.database import Database
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.clients.component import ClientAccessComponent
from restante.events.component import EventsComponent
from restante.events.outgoing_http import OutgoingClient
from restante.events.portal.component import PortalAccess, PortalComponent
from restante.events.push.component import PushComponent, SubscriptionOptions
from restante.events.signing.component import SigningComponent
from restante.events.ssf.component import SharedSignalsComponent
from restante.identity.master_key import MasterKey
from restante.server.config.options import (
    access_options,
    base_url,
    events_options,
    portal_facts,
    push_options,
    shared_signals_options,
    signing_options,
)
from restante.server.config.settings import Settings
from restante.web.component import Component


@dataclass(frozen=True, slots=True)
class EventComponents:
    client_access: ClientAccessComponent
    events: EventsComponent
    signing: SigningComponent
    push: PushComponent
    shared_signals: SharedSignalsComponent
    portal: PortalComponent

    def in_order(self) -> list[Component]:
        """Earlier components handle commit events first, and close first."""
        return [self.client_access, self.events, self.signing, self.push, self.shared_signals, self.portal]


def event_components(
    settings: Settings,
    database: Database,
    master_key: MasterKey,
    access: PortalAccess,
    *,
    is_shared: bool,
) -> EventComponents:
    options, pushing = events_options(settings), push_options(settings)
    outgoing = OutgoingClient(pushing.client)
    remote_keys = RemoteKeys(database, outgoing)
    events = EventsComponent(database, access.tokens, options)
    signing = SigningComponent(database, master_key, signing_options(settings, is_shared=is_shared), remote_keys)
    subscriptions = SubscriptionOptions(options.paths.bases(), base_url(settings), signing.message_signatures)
    shared_signals = SharedSignalsComponent(
        database,
        master_key,
        outgoing,
        events.presence,
        events.counters,
        options.poll,
        shared_signals_options(settings),
    )
    client_access = ClientAccessComponent(
        database,
        access.certificates,
        access_options(settings),
        signing.rotation.make_missing,
        events.presence.newest_ms,
        remote_keys,
    )
    return EventComponents(
        client_access,
        events,
        signing,
        PushComponent(database, master_key, pushing, subscriptions, outgoing),
        shared_signals,
        PortalComponent(database, portal_facts(settings), access, events.presence.newest_ms),
    )
