"""Options as the default settings make them, for tests that change some of them."""

from dataclasses import replace
from typing import Any

from restante.core.events.push_outcome import PushRules
from restante.database.database import Database
from restante.events.api_versions import ApiPaths
from restante.events.clients.access import AccessOptions
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.component import EventsOptions
from restante.events.inbox.inbox import InboxOptions
from restante.events.inbox.poll import PollOptions
from restante.events.outgoing_http import OutgoingClient, OutgoingOptions
from restante.events.push.component import SubscriptionOptions
from restante.events.push.pusher import PushOptions
from restante.events.signing.component import SigningOptions
from restante.events.signing.key_rotation import KeyRotation
from restante.events.signing.message_signatures import MessageSignatures
from restante.events.ssf.options import SharedSignalsOptions
from restante.events.ssf.streams import StreamRules
from restante.identity.master_key import MasterKey
from restante.server.config import options
from restante.server.config.settings import Settings


def api_paths(**changed: Any) -> ApiPaths:
    return replace(options.events_paths(Settings()), **changed)


def access_options(**changed: Any) -> AccessOptions:
    return replace(options.access_options(Settings()), **changed)


def stored_poll(_client: int, stored_ms: int | None) -> int | None:
    """The last poll of a client where no process remembers a newer one."""
    return stored_ms


def inbox_options(**changed: Any) -> InboxOptions:
    return replace(options.events_options(Settings()).poll.inbox, **changed)


def poll_options(**changed: Any) -> PollOptions:
    return replace(options.events_options(Settings()).poll, **changed)


def events_options(**changed: Any) -> EventsOptions:
    return replace(options.events_options(Settings()), **changed)


def message_signatures(database: Database) -> MessageSignatures:
    master_key = MasterKey(bytes(range(32)))
    defaults = signing_options()
    rotation = KeyRotation(database, master_key, defaults.rotation)
    return MessageSignatures(database, master_key, rotation.make_missing, defaults.messages, remote_keys(database))


def remote_keys(database: Database) -> RemoteKeys:
    """For tests whose clients have no `jwks_uri`."""
    return RemoteKeys(database, OutgoingClient(receiver_client_options()))


def subscription_options(database: Database) -> SubscriptionOptions:
    return SubscriptionOptions(api_paths().bases(), options.base_url(Settings()), message_signatures(database))


def signing_options(**changed: Any) -> SigningOptions:
    return replace(options.signing_options(Settings()), **changed)


def push_rules(**changed: Any) -> PushRules:
    return replace(options.push_options(Settings()).rules, **changed)


def push_options(**changed: Any) -> PushOptions:
    return replace(options.push_options(Settings()), **changed)


def receiver_client_options(**changed: Any) -> OutgoingOptions:
    return replace(options.push_options(Settings()).client, **changed)


def shared_signals_options(**changed: Any) -> SharedSignalsOptions:
    return replace(options.shared_signals_options(Settings()), **changed)


def stream_rules(**changed: Any) -> StreamRules:
    return replace(shared_signals_options().rules, **changed)
