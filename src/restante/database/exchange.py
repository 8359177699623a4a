"""The exchange: a node's notices go out to the others, theirs come in, and what was not heard is looked for.

    commit ─▶ tell ─▶ sender's thread ─▶ channel ─▶ listener's thread of each other node ─▶ heard
                                                    └─ every second: what was kept and not heard ─▶ heard

Must always hold: between `back` and the next `lost`, every notice that another node has committed is heard, told or
not, a little later at worst; hardly ever twice, which must do no harm. Between `lost` and `back` nobody may rely on
what it remembers: `lost` is called again with every attempt that fails.

Knows nothing of what the messages say, nor of event loops: it calls from its own threads.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import structlog

from restante.database import notices
from restante.database.channel import PAYLOAD_BYTES_MAX, Channel
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError
from restante.database.notices import Notice

log = structlog.get_logger()

T = TypeVar("T")

LOOK_SECONDS = 1.0
RECONNECT_SECONDS = 0.3
# What is told without a commit behind it, and so without a number.
UNCOMMITTED = 0


class Hearer(Protocol):
    """Who is told. Called from the listener's thread."""

    def heard(self, notice: Notice) -> None: ...

    def lost(self) -> None:
        """Others may have told something that is not heard here."""

    def back(self) -> None:
        """From now on everything is heard; what was told before is not known."""

    def looked(self, now_ms: int, next_id: int) -> None:
        """The database's time, about every second; what was committed before it has a lower number than this."""


class Told(NamedTuple):
    """A notice on its way: whose it is, the number of its commit, and what it says, or "" for "read it yourself"."""

    node: str
    commit_id: int
    message: str

    def payload(self) -> str:
        whole = f"{self.node} {self.commit_id} {self.message}"
        return whole if len(whole.encode()) <= PAYLOAD_BYTES_MAX else f"{self.node} {self.commit_id} "


def told_by(payload: str) -> Told:
    node, commit_id, message = payload.split(" ", 2)
    return Told(node, int(commit_id), message)


class Exchange:
    def __init__(self, engine: Engine, node: str, hearer: Hearer) -> None:
        self._engine = engine
        self._node = node
        self._hearer = hearer
        self._listening, self._sending = _channel(engine), _channel(engine)
        self._reading: EngineConnection | None = None
        self._to_send: queue.SimpleQueue[Told | None] = queue.SimpleQueue()
        # The database's time and the horizon of the last looks, the elder first. What was too new for one look is for
        # a later one to see, which then looks from a horizon of before that.
        self._horizons: deque[tuple[int, int]] = deque()
        self._heard_ids: set[int] = set()
        self._is_closing = threading.Event()
        # How many notices were heard, and how many of them only by looking.
        self.heard_count = 0
        self.late_count = 0
        self._threads = [
            threading.Thread(target=self._listen, name="restante-listener", daemon=True),
            threading.Thread(target=self._send, name="restante-sender", daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def tell(self, message: str, commit_id: int = UNCOMMITTED) -> None:
        """Have the others told. Returns at once; may be called from any thread."""
        self._to_send.put(Told(self._node, commit_id, message))

    def close(self) -> None:
        """Tell what is to be told, then end."""
        self._is_closing.set()
        # The listener hears it, too, and wakes up.
        self._to_send.put(Told(self._node, UNCOMMITTED, ""))
        self._to_send.put(None)
        for thread in self._threads:
            thread.join()

    def _send(self) -> None:
        is_last = False
        while not is_last:
            waiting = [self._to_send.get()]
            while not self._to_send.empty():
                waiting.append(self._to_send.get())
            is_last = None in waiting
            payloads = [told.payload() for told in waiting if told is not None]
            try:
                self._sending.send(payloads)
            except DatabaseError as error:
                # What was committed the others find by looking; the rest mends itself.
                log.warning("other nodes could not be told at once", notices=len(payloads), error=str(error))
        self._sending.close()

    def _listen(self) -> None:
        while not self._is_closing.is_set():
            try:
                self._listening.listen()
                self._forget_position()
                self._look()
                self._hearer.back()
                self._hear_on()
            except DatabaseError as error:
                log.warning("other nodes are not heard, trying again", error=str(error))
                self._hearer.lost()
                self._is_closing.wait(RECONNECT_SECONDS)
        self._listening.close()
        self._forget_position()

    def _hear_on(self) -> None:
        look_at = time.monotonic() + LOOK_SECONDS
        while not self._is_closing.is_set():
            for payload in self._listening.wait(max(0.0, look_at - time.monotonic())):
                self._take(told_by(payload))
            if time.monotonic() >= look_at:
                self._look()
                look_at = time.monotonic() + LOOK_SECONDS

    def _take(self, told: Told) -> None:
        if told.node == self._node or told.commit_id in self._heard_ids:
            return
        message: str | None = told.message
        if told.commit_id != UNCOMMITTED:
            self._heard_ids.add(told.commit_id)
            if not message:
                message = self._read(lambda conn: notices.message_of(conn, told.commit_id))
        if message is None:
            raise DatabaseError("a notice was told that is no longer kept")
        if message:
            self.heard_count += 1
            self._hearer.heard(Notice(told.commit_id, told.node, message))

    def _look(self) -> None:
        horizon = self._horizons[0][1] if self._horizons else None
        look = self._read(lambda conn: notices.look(conn, self._node, horizon))
        self._hearer.looked(look.now_ms, look.next_id)
        for notice in look.found:
            if notice.commit_id not in self._heard_ids:
                self._heard_ids.add(notice.commit_id)
                self.late_count += 1
                self.heard_count += 1
                self._hearer.heard(notice)
        self._horizons.append((look.now_ms, look.horizon))
        while len(self._horizons) > 1 and self._horizons[1][0] <= look.now_ms - notices.TOLD_WITHIN_MS:
            self._horizons.popleft()
        self._heard_ids = {each for each in self._heard_ids if each >= self._horizons[0][1]}

    def _read(self, work: Callable[[EngineConnection], T]) -> T:
        if self._reading is None:
            self._reading = self._engine.connect(writable=False)
        self._reading.begin()
        try:
            return work(self._reading)
        finally:
            self._reading.rollback()

    def _forget_position(self) -> None:
        self._horizons.clear()
        self._heard_ids.clear()
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()


def _channel(engine: Engine) -> Channel:
    channel = engine.channel()
    if channel is None:
        raise DatabaseError(f"nodes cannot share {engine.name}")
    return channel
