"""The node bus publishes this node's messages to the other nodes and receives theirs.

    commit ─▶ publish ─▶ sender thread ─▶ channel ─▶ listener thread of every other node ─▶ on_message
                                                     └─ every second: scan for stored messages that
                                                        were not received ─▶ on_message

It does not interpret the messages, and it uses no event loop: it calls its listener from its own threads.

Invariants: between `on_connected` and the next `on_disconnected`, the listener gets every message that another node
has committed, published or not, a little later at worst; rarely twice, and a duplicate must do no harm. Between
`on_disconnected` and `on_connected` the listener must not rely on anything it has cached; `on_disconnected` is called
again for every failed attempt to connect.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog

from restante.database.bus import node_messages
from restante.database.bus.node_messages import NodeMessage
from restante.database.engine import PAYLOAD_BYTES_MAX, Channel, Engine, EngineConnection
from restante.database.errors import DatabaseError

log = structlog.get_logger()

T = TypeVar("T")

SCAN_SECONDS = 1.0
RECONNECT_SECONDS = 0.3
# The number of messages that are published without a commit.
UNCOMMITTED = 0


class BusListener(Protocol):
    """Receives what the bus reports. Called from the bus's listener thread."""

    def on_message(self, message: NodeMessage) -> None: ...

    def on_disconnected(self) -> None:
        """Messages of other nodes may be missed from now on."""

    def on_connected(self) -> None:
        """From now on every message is received; those published before are unknown."""

    def on_scan(self, now_ms: int, next_id: int) -> None:
        """About every second: the database's time, and an id above those of all transactions committed before."""


@dataclass(frozen=True, slots=True)
class BusPayload:
    """A message on the channel: its node, its commit's number, and the text; "" means "read it from the table"."""

    node: str
    commit_id: int
    message: str

    def encode(self) -> str:
        payload = f"{self.node} {self.commit_id} {self.message}"
        return payload if len(payload.encode()) <= PAYLOAD_BYTES_MAX else f"{self.node} {self.commit_id} "

    @classmethod
    def decode(cls, payload: str) -> "BusPayload":
        node, commit_id, message = payload.split(" ", 2)
        return cls(node, int(commit_id), message)


class NodeBus:
    def __init__(self, engine: Engine, node: str, listener: BusListener) -> None:
        self._engine = engine
        self._node = node
        self._listener = listener
        self._listen_channel, self._send_channel = _channel(engine), _channel(engine)
        self._scan_conn: EngineConnection | None = None
        self._to_send: queue.SimpleQueue[BusPayload | None] = queue.SimpleQueue()
        # The database's time and the horizon of the last scans, oldest first. A message that was too new for one scan
        # is found by a later one, which therefore starts at a horizon from before that scan.
        self._horizons: deque[tuple[int, int]] = deque()
        self._received_ids: set[int] = set()
        self._is_closing = threading.Event()
        # All messages received, and those of them that only a scan found.
        self.received_count = 0
        self.found_by_scan_count = 0
        self._threads = [
            threading.Thread(target=self._listen, name="restante-listener", daemon=True),
            threading.Thread(target=self._send, name="restante-sender", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def publish(self, message: str, commit_id: int = UNCOMMITTED) -> None:
        """Send a message to the other nodes. Returns at once; callable from any thread."""
        self._to_send.put(BusPayload(self._node, commit_id, message))

    def close(self, timeout_seconds: float) -> None:
        """Send all queued messages, then stop both threads. They are abandoned if the database does not answer."""
        self._is_closing.set()
        # This node's own listener receives this payload too, and wakes up.
        self._to_send.put(BusPayload(self._node, UNCOMMITTED, ""))
        self._to_send.put(None)
        end = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _send(self) -> None:
        is_last = False
        while not is_last:
            queued = [self._to_send.get()]
            while not self._to_send.empty():
                queued.append(self._to_send.get())
            is_last = None in queued
            payloads = [each.encode() for each in queued if each is not None]
            try:
                self._send_channel.send(payloads)
            except DatabaseError as error:
                # The scans of the other nodes find committed messages; uncommitted ones are only hints.
                log.warning("sending to other nodes failed", messages=len(payloads), error=str(error))
        self._send_channel.close()

    def _listen(self) -> None:
        while not self._is_closing.is_set():
            try:
                self._listen_channel.listen()
                self._reset_scan()
                self._scan()
                self._listener.on_connected()
                self._receive_until_closing()
            except DatabaseError as error:
                log.warning("listening to other nodes failed, retrying", error=str(error))
                self._listener.on_disconnected()
                self._is_closing.wait(RECONNECT_SECONDS)
        self._listen_channel.close()
        self._reset_scan()

    def _receive_until_closing(self) -> None:
        scan_at = time.monotonic() + SCAN_SECONDS
        while not self._is_closing.is_set():
            for payload in self._listen_channel.wait(max(0.0, scan_at - time.monotonic())):
                self._receive(BusPayload.decode(payload))
            if time.monotonic() >= scan_at:
                self._scan()
                scan_at = time.monotonic() + SCAN_SECONDS

    def _receive(self, payload: BusPayload) -> None:
        commit_id = payload.commit_id
        if payload.node == self._node or commit_id in self._received_ids:
            return
        message: str | None = payload.message
        if commit_id != UNCOMMITTED:
            self._received_ids.add(commit_id)
            if not message:
                message = self._read(lambda conn: node_messages.read_message(conn, commit_id))
        if message is None:
            raise DatabaseError("a published message has already been deleted")
        if message:
            self.received_count += 1
            self._listener.on_message(NodeMessage(commit_id, payload.node, message))

    def _scan(self) -> None:
        horizon = self._horizons[0][1] if self._horizons else None
        scan = self._read(lambda conn: node_messages.scan(conn, self._node, horizon))
        self._listener.on_scan(scan.now_ms, scan.next_id)
        for message in scan.found:
            if message.commit_id not in self._received_ids:
                self._received_ids.add(message.commit_id)
                self.found_by_scan_count += 1
                self.received_count += 1
                self._listener.on_message(message)
        self._horizons.append((scan.now_ms, scan.horizon))
        while len(self._horizons) > 1 and self._horizons[1][0] <= scan.now_ms - node_messages.PUBLISH_GRACE_MS:
            self._horizons.popleft()
        self._received_ids = {each for each in self._received_ids if each >= self._horizons[0][1]}

    def _read(self, work: Callable[[EngineConnection], T]) -> T:
        if self._scan_conn is None:
            self._scan_conn = self._engine.connect(writable=False)
        self._scan_conn.begin()
        try:
            return work(self._scan_conn)
        finally:
            self._scan_conn.rollback()

    def _reset_scan(self) -> None:
        self._horizons.clear()
        self._received_ids.clear()
        conn, self._scan_conn = self._scan_conn, None
        if conn is not None:
            conn.close()


def _channel(engine: Engine) -> Channel:
    channel = engine.channel()
    if channel is None:
        raise DatabaseError(f"nodes cannot share {engine.name}")
    return channel
