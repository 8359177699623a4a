"""Cluster messages as text: which messages a list of commit events becomes, and how they are encoded.

    commit events ─▶ messages_of ─▶ encoded ─▶ stored with the commit, and sent ─▶ MessageDecoder of each other node

An object that is no commit event becomes `AnythingChanged`: the other nodes then drop all cached knowledge.
"""

import os
import secrets
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import reduce
from operator import or_
from typing import Any

import msgspec

from restante.database.bus import node_messages
from restante.database.bus.node_bus import BusPayload
from restante.database.bus.node_messages import NodeMessage
from restante.database.commit_events import AnythingChanged, ClusterMessage
from restante.database.database import Database
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseUnavailable

_encoder = msgspec.json.Encoder()


class MessageDecoder:
    def __init__(self, types: Iterable[type[ClusterMessage]]) -> None:
        self._decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[reduce(or_, types)])  # type: ignore[misc]

    def decode(self, text: str) -> list[ClusterMessage]:
        """Raise ValueError for a message that this version does not know."""
        return self._decoder.decode(text)


def messages_of(events: Iterable[object]) -> list[ClusterMessage]:
    """The messages for other nodes: for each recipient the newest of each type."""
    messages: dict[tuple[Any, ...], ClusterMessage] = {}
    for event in events:
        cluster_message = getattr(event, "cluster_message", AnythingChanged)
        message: ClusterMessage | None = cluster_message()
        if message is not None:
            messages[type(message), *msgspec.structs.astuple(message)[:1]] = message
    return list(messages.values())


def encoded(messages: list[ClusterMessage]) -> str:
    return _encoder.encode(messages).decode()


def new_node_name() -> str:
    """A name that no other node ever has. It contains no space: the bus puts one behind it."""
    host = socket.gethostname()[:40].replace(" ", "-")
    return f"{host}:{os.getpid()}:{secrets.token_hex(4)}"


def message_storage(node_name: str) -> Callable[[EngineConnection], None]:
    """A `before_commit` hook that stores the messages of a transaction together with its changes."""

    def store(conn: EngineConnection) -> None:
        messages = messages_of(conn.commit_events)
        if messages:
            conn.add_commit_event(node_messages.store(conn, node_name, encoded(messages)))

    return store


def publish_commits(database: Database, engine: Engine) -> None:
    """Publish what this process commits to the running nodes, for a command that receives nothing itself."""
    channel = engine.channel()
    if channel is None:
        return
    name = new_node_name()

    def publish(events: list[object]) -> None:
        stored = [each for each in events if isinstance(each, NodeMessage)]
        payloads = [BusPayload(name, each.commit_id, each.message).encode() for each in stored]
        # A node that does not receive the payload finds the stored message.
        with suppress(DatabaseUnavailable):
            channel.send(payloads)
            channel.close()

    database.before_commit(message_storage(name))
    database.on_commit(publish)
