"""The nodes that share a database: each writes every few seconds that it runs, and how busy it is.

A node that stops removes its row. A node that disappears keeps it, so that the console can show that it is away, until
the row is a day old. Nothing else depends on these rows: nodes find each other's changes by the node bus.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from restante import __version__
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

BEAT_SECONDS = 5.0
KEPT_MS = 86_400_000


class NodeLoad(msgspec.Struct, frozen=True):
    """How busy a node is: open connections, parked polls, answered requests per second, and the last values of the
    rates that the console adds up over all nodes."""

    connections: int = 0
    parked_polls: int = 0
    requests_per_second: float = 0.0
    series: dict[str, list[float]] = {}


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    name: str
    listen: str
    roles: str
    started_at: int
    host: str = ""
    version: str = __version__

    @classmethod
    def of_this_process(cls, name: str, listen: str, roles: str, started_at: int) -> "NodeIdentity":
        return cls(name, listen, roles, started_at, f"{socket.gethostname()}, process {os.getpid()}")


@dataclass(frozen=True, slots=True)
class KnownNode:
    identity: NodeIdentity
    seen_at: int
    load: NodeLoad


class NodeRegistry:
    """Writes the row of this node while it runs."""

    def __init__(self, database: Database, identity: Callable[[], NodeIdentity], load: Callable[[], NodeLoad]) -> None:
        self._database = database
        self._identity = identity
        self._load = load

    async def run(self) -> None:
        try:
            while True:
                # Without a row the node only looks away.
                with suppress(DatabaseError):
                    await self._database.write(beat, self._identity(), self._load())
                await asyncio.sleep(BEAT_SECONDS)
        finally:
            with suppress(DatabaseError):
                await asyncio.shield(self._database.write(remove, self._identity().name))


def beat(conn: Connection, identity: NodeIdentity, load: NodeLoad, ago_ms: int = 0) -> None:
    """Say that the node runs, or ran so long ago."""
    conn.run(
        SQL.beat,
        name=identity.name,
        host=identity.host,
        listen=identity.listen,
        roles=identity.roles,
        version=identity.version,
        started_at=identity.started_at,
        now_ms=conn.now_ms - ago_ms,
        load=msgspec.json.encode(load).decode(),
    )
    conn.run(SQL.remove_old, before_ms=conn.now_ms - KEPT_MS)


def remove(conn: Connection, name: str) -> None:
    conn.run(SQL.remove, name=name)


def list_nodes(conn: Connection) -> list[KnownNode]:
    return [
        KnownNode(
            NodeIdentity(row["name"], row["listen"], row["roles"], row["started_at"], row["host"], row["version"]),
            row["seen_at"],
            msgspec.json.decode(row["load"], type=NodeLoad),
        )
        for row in conn.all(SQL.nodes)
    ]
