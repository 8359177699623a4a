"""What commits announce, as far as it concerns other nodes: every type of announcement is named here, once.

    announced in this process ─▶ messages (whom it concerns, never what) ─▶ other nodes ─▶ `Neighbours` hears them

`CROSSING` says which message an announcement becomes; `STAYING`, why one is nobody else's business. One that is named
in neither makes the others drop all they remember: nothing is missed, and a test complains.
"""

import os
import secrets
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from restante.commands.leases import CommandFailed
from restante.commands.queue import CommandsChanged
from restante.commands.site_neighbours import (
    NobodyWaits,
    SiteMoment,
    SiteRing,
    SiteServed,
    SitesLeft,
    SitesWaiting,
    WhoWaits,
)
from restante.database import notices
from restante.database.database import Database
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseUnavailable
from restante.database.exchange import Told
from restante.database.notices import Notice
from restante.database.writer import ForeignCommit, NewsLost
from restante.delivery.log import Published
from restante.delivery.outbox import Enqueued
from restante.events.inbox import InboxChanged
from restante.events.publishing import EventsToSign
from restante.events.receivers import PushDue
from restante.identity.callers import ClientRevoked, CollectorRevoked, DeviceRevoked
from restante.identity.signing_keys import KeysRotated
from restante.updates.assignments import WrapsPending
from restante.updates.rollout import RolloutChanged


class LogMoved(msgspec.Struct, array_like=True, frozen=True, tag="log"):
    """A device's log now ends there."""

    device_id: int
    ms: int
    n: int


class SiteChanged(msgspec.Struct, array_like=True, frozen=True, tag="site"):
    """A site's queue has changed, and this node is to serve it; "": whoever has somebody waiting."""

    site_id: int
    to: str = ""


class DeviceOut(msgspec.Struct, array_like=True, frozen=True, tag="device"):
    device_id: int


class CollectorOut(msgspec.Struct, array_like=True, frozen=True, tag="collector"):
    device_id: int


class ClientOut(msgspec.Struct, array_like=True, frozen=True, tag="client"):
    client: int


class KeysChanged(msgspec.Struct, array_like=True, frozen=True, tag="keys"):
    """Other keys sign and verify now."""


class RolloutMoved(msgspec.Struct, array_like=True, frozen=True, tag="rollout"):
    """A rollout began or ended."""


class OutboxFilled(msgspec.Struct, array_like=True, frozen=True, tag="outbox"):
    """There is something to dispatch."""


class WrapsWanted(msgspec.Struct, array_like=True, frozen=True, tag="wraps"):
    """There are data keys to wrap."""


class InboxMoved(msgspec.Struct, array_like=True, frozen=True, tag="inbox"):
    """Something may be ready for a client of event polling."""

    client: int


class SigningWanted(msgspec.Struct, array_like=True, frozen=True, tag="sign"):
    """There are events to sign."""


class PushWanted(msgspec.Struct, array_like=True, frozen=True, tag="push"):
    """There is something to push."""


class Anything(msgspec.Struct, array_like=True, frozen=True, tag="anything"):
    """Something has changed that has no name: whatever is remembered may be wrong."""


Message = (
    LogMoved
    | SiteChanged
    | DeviceOut
    | CollectorOut
    | ClientOut
    | KeysChanged
    | RolloutMoved
    | OutboxFilled
    | WrapsWanted
    | InboxMoved
    | SigningWanted
    | PushWanted
    | Anything
    | SiteRing
    | SiteServed
    | SiteMoment
    | SitesWaiting
    | SitesLeft
    | WhoWaits
    | NobodyWaits
)

CROSSING: dict[type, Callable[[Any], Message]] = {
    Published: lambda each: LogMoved(each.device_id, *each.head.newest),
    CommandsChanged: lambda each: SiteChanged(each.site_id),
    DeviceRevoked: lambda each: DeviceOut(each.device_id),
    CollectorRevoked: lambda each: CollectorOut(each.device_id),
    ClientRevoked: lambda each: ClientOut(each.id),
    KeysRotated: lambda _: KeysChanged(),
    RolloutChanged: lambda _: RolloutMoved(),
    Enqueued: lambda _: OutboxFilled(),
    WrapsPending: lambda _: WrapsWanted(),
    InboxChanged: lambda each: InboxMoved(each.client),
    EventsToSign: lambda _: SigningWanted(),
    PushDue: lambda _: PushWanted(),
}

STAYING: dict[type, str] = {
    CommandFailed: "counted by the process in which it happened",
    ForeignCommit: "what this process has found out about others",
    NewsLost: "a commit of this process may have been made: its notice, if it was, is found by the others",
    Notice: "the notice itself, on its way to the others",
}

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[Message])


def messages_of(announced: Iterable[object]) -> list[Message]:
    """What the others are to be told; the last there is to say about each recipient."""
    messages: dict[tuple[Any, ...], Message] = {}
    for event in announced:
        crossing = CROSSING.get(type(event))
        if crossing is not None:
            message = crossing(event)
            messages[type(message), *msgspec.structs.astuple(message)[:1]] = message
        elif type(event) not in STAYING:
            messages[(Anything,)] = Anything()
    return list(messages.values())


def encoded(messages: list[Message]) -> str:
    return _encoder.encode(messages).decode()


def decoded(message: str) -> list[Message]:
    """ValueError if it is of a form that this version does not know."""
    return _decoder.decode(message)


def node_name() -> str:
    """Never the same twice; without a space, which separates it from what the node says."""
    host = socket.gethostname()[:40].replace(" ", "-")
    return f"{host}:{os.getpid()}:{secrets.token_hex(4)}"


def keeping(name: str) -> Callable[[EngineConnection], None]:
    """What to call in each transaction that announces something, for other nodes to hear of it."""

    def keep(conn: EngineConnection) -> None:
        messages = messages_of(conn.announced)
        if messages:
            conn.announce(notices.keep(conn, name, encoded(messages)))

    return keep


def tell_others(database: Database, engine: Engine) -> None:
    """Have what this process commits told to the nodes there are; for a command, which hears nothing itself."""
    channel = engine.channel()
    if channel is None:
        return
    name = node_name()

    def tell(announced: list[object]) -> None:
        payloads = [
            Told(name, each.commit_id, each.message).payload() for each in announced if isinstance(each, Notice)
        ]
        # Whom the word does not reach finds the notice.
        with suppress(DatabaseUnavailable):
            channel.send(payloads)
            channel.close()

    database.before_commit(keeping(name))
    database.on_commit(tell)
