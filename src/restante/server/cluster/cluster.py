"""This node among the others on the same database: it publishes what its commits change, and handles what theirs do.

    commit: the messages are stored in the transaction (`message_storage`)
    after:  this process handles the events, then `publish` sends the messages to the other nodes
    others: `ComponentList.handle_cluster_message`

    connection lost ─▶ forget_all ─▶ … ─▶ connected ─▶ forget_all, recheck

Invariant: while the node is not connected, no component answers from memory. A node on SQLite has no cluster. The bus
calls the `on_…` methods from its own thread; everything else runs in the event loop.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from restante.database.bus import node_messages
from restante.database.bus.node_bus import NodeBus
from restante.database.bus.node_messages import NodeMessage
from restante.database.clocks.clock import DatabaseClock
from restante.database.commit_events import ClusterMessage, ForeignCommit
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.server.cluster.cluster_messages import (
    MessageDecoder,
    encoded,
    message_storage,
    messages_of,
    new_node_name,
)
from restante.server.cluster.roles import RoleNames
from restante.server.component_list import ComponentList
from restante.web.component import MessageOrigin

log = structlog.get_logger()

SWEEP_SECONDS = 20.0


class Cluster:
    def __init__(
        self, engine: Engine, database: Database, components: ComponentList, roles: RoleNames, clock: DatabaseClock
    ) -> None:
        self.name = new_node_name()
        self._database = database
        self._components = components
        self._roles = roles
        self._clock = clock
        self._bus = NodeBus(engine, self.name, self)
        self._decoder = MessageDecoder(components.cluster_messages)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsent: list[ClusterMessage] = []
        # Whether the messages of all other nodes reach this one.
        self.is_connected = False
        database.before_commit(message_storage(self.name))
        for component in components:
            component.join_cluster(self.name, self.send)

    @property
    def received_count(self) -> int:
        return self._bus.received_count

    @property
    def found_by_scan_count(self) -> int:
        """How many of the received messages only a scan of the stored messages found."""
        return self._bus.found_by_scan_count

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._bus.start()

    def close(self, timeout_seconds: float) -> None:
        """Send what is not sent yet, and end. Blocks for a moment."""
        self._flush()
        self._bus.close(timeout_seconds)

    async def sweep(self) -> None:
        """Remove old stored messages, often: a busy database has many. Every node runs this service."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            with suppress(DatabaseError):
                while await self._database.write(node_messages.delete_old) >= node_messages.SWEEP_ROWS:
                    pass

    def publish(self, events: list[object]) -> None:
        """Publish the events of a commit, after this process has handled them."""
        for stored in events:
            if isinstance(stored, NodeMessage):
                messages = [
                    self._components.complete(message, stored.commit_id)
                    for message in messages_of(events)
                    if message.work_role not in self._roles
                ]
                self._bus.publish(encoded(messages), stored.commit_id)

    def send(self, message: ClusterMessage) -> None:
        """Send a message that belongs to no commit. Messages of one loop iteration are sent together."""
        if not self._unsent and self._loop is not None:
            self._loop.call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        if self._unsent:
            messages, self._unsent = self._unsent, []
            self._bus.publish(encoded(messages))

    # BusListener: called from the thread of the node bus.

    def on_message(self, message: NodeMessage) -> None:
        self._in_loop(self._handle, message)

    def on_disconnected(self) -> None:
        self._in_loop(self._disconnected)

    def on_connected(self) -> None:
        self._in_loop(self._connected)

    def on_scan(self, now_ms: int, next_id: int) -> None:
        self._clock.set(now_ms)
        self._in_loop(self._scanned, next_id)

    def _in_loop(self, work: Callable[..., None], *args: object) -> None:
        # After the loop has closed there is nothing left to do.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(work, *args)

    def _handle(self, stored: NodeMessage) -> None:
        origin = MessageOrigin(stored.node, stored.commit_id)
        try:
            for message in self._decoder.decode(stored.message):
                self._components.handle_cluster_message(message, origin)
        except Exception:
            # A node of another version may send a message that this one does not know: it may be about anything.
            log.exception("cluster message not handled", node=stored.node)
            self._connected()

    def _scanned(self, next_commit_id: int) -> None:
        for component in self._components:
            component.handle_bus_scan(next_commit_id)

    def _disconnected(self) -> None:
        self.is_connected = False
        self._components.forget_all()

    def _connected(self) -> None:
        """Messages may have been missed until now: read everything again."""
        log.info("connected to the other nodes", node=self.name)
        self.is_connected = True
        self._components.invalidate()
        self._components.handle_commit_events([ForeignCommit()])
