"""This node among others on the same database: tells them what its commits announce, and passes on what they tell.

    commit: what was announced is kept as a notice, in the transaction
    after:  heard in this process (`lifecycle.hear`), then told to the others, with who is to serve each site
    others: only whom it concerns looks again; knowledge that may be wrong is dropped

Where there is no other node (SQLite), there is no such object. Everything but what `keeping` gives and what the
exchange calls runs in the event loop.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from restante.core.cursor import Position
from restante.database import notices
from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.exchange import Exchange
from restante.database.notices import Notice
from restante.database.writer import ForeignCommit
from restante.delivery.outbox import Enqueued
from restante.events.inbox import InboxChanged
from restante.events.publishing import EventsToSign
from restante.events.receivers import PushDue
from restante.identity.callers import ClientRevoked, CollectorRevoked, DeviceRevoked
from restante.server import lifecycle
from restante.server.announcements import (
    Anything,
    ClientOut,
    CollectorOut,
    DeviceOut,
    InboxMoved,
    KeysChanged,
    LogMoved,
    Message,
    OutboxFilled,
    PushWanted,
    RolloutMoved,
    SigningWanted,
    SiteChanged,
    WrapsWanted,
    decoded,
    encoded,
    keeping,
    messages_of,
    node_name,
)
from restante.updates.assignments import WrapsPending

if TYPE_CHECKING:
    from restante.server.app import Node

log = structlog.get_logger()

SWEEP_SECONDS = 20.0
# Messages that there is work to do, and whose.
WORK: dict[type, str] = {
    OutboxFilled: "dispatcher",
    WrapsWanted: "wrapping",
    SigningWanted: "signing",
    PushWanted: "push",
}


class Neighbours:
    def __init__(self, node: "Node", engine: Engine) -> None:
        self.name = node_name()
        self._node = node
        self._exchange = Exchange(engine, self.name, self)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._to_say: list[Message] = []
        # Whether everything that others tell is heard now.
        self.is_in_touch = False
        node.database.before_commit(keeping(self.name))
        node.commands.join(self.name, self.say)

    @property
    def heard_count(self) -> int:
        return self._exchange.heard_count

    @property
    def late_count(self) -> int:
        return self._exchange.late_count

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchange.start()

    def close(self) -> None:
        """Say what is still to be said, and end. Blocks for a moment."""
        self._flush()
        self._exchange.close()

    async def sweep(self) -> None:
        """Remove old notices, often: a busy database has many. As a service; every node does it."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            with suppress(DatabaseError):
                while await self._node.database.write(notices.forget_old) >= notices.SWEEP_ROWS:
                    pass

    def tell(self, announced: list[object]) -> None:
        """Tell the others what a commit has announced, after it was heard here."""
        for notice in announced:
            if isinstance(notice, Notice):
                messages = [
                    self._with_server(each, notice.commit_id)
                    for each in messages_of(announced)
                    if not self._is_done_here(each)
                ]
                self._exchange.tell(encoded(messages), notice.commit_id)

    def _is_done_here(self, message: Message) -> bool:
        """Work that this process has been rung for itself: others find it if this one does not come to it."""
        role = WORK.get(type(message))
        return role is not None and role in self._node.settings.roles

    def say(self, message: Message) -> None:
        """Tell the others something no commit stands behind; what is said together goes out together."""
        if not self._to_say and self._loop is not None:
            self._loop.call_soon(self._flush)
        self._to_say.append(message)

    def _flush(self) -> None:
        if self._to_say:
            messages, self._to_say = self._to_say, []
            self._exchange.tell(encoded(messages))

    def _with_server(self, message: Message, commit_id: int) -> Message:
        if isinstance(message, SiteChanged):
            return SiteChanged(message.site_id, self._node.commands.neighbours.to_serve(message.site_id, commit_id))
        return message

    # What the exchange calls, from its thread.

    def heard(self, notice: Notice) -> None:
        self._in_loop(self._hear, notice)

    def lost(self) -> None:
        self._in_loop(self._lose_touch)

    def back(self) -> None:
        self._in_loop(self._look_again)

    def looked(self, now_ms: int, next_id: int) -> None:
        self._node.clock.set(now_ms)
        self._in_loop(self._node.commands.changes.told_number, next_id)

    def _in_loop(self, work: Callable[..., None], *args: object) -> None:
        # After the loop has closed nobody is left to be told.
        with suppress(RuntimeError):
            if self._loop is not None:
                self._loop.call_soon_threadsafe(work, *args)

    def _hear(self, notice: Notice) -> None:
        try:
            for message in decoded(notice.message):
                self._hear_one(message, notice)
        except Exception:
            # A node of another version may say what this one does not understand: it may be news.
            log.exception("what another node tells could not be passed on", node=notice.node)
            self._drop_all()
            self._look_again()

    def _hear_one(self, message: Message, notice: Notice) -> None:
        node = self._node
        match message:
            case LogMoved(device_id=device_id, ms=ms, n=n):
                node.poll.moved(device_id, Position(ms, n))
            case SiteChanged(site_id=site_id, to=to):
                node.commands.neighbours.changed_elsewhere(site_id, notice.commit_id, to)
            case DeviceOut(device_id=device_id):
                lifecycle.hear(node, [DeviceRevoked(device_id)])
            case CollectorOut(device_id=device_id):
                lifecycle.hear(node, [CollectorRevoked(device_id)])
            case ClientOut(client=client):
                lifecycle.hear(node, [ClientRevoked(client)])
            case OutboxFilled():
                lifecycle.hear(node, [Enqueued()])
            case WrapsWanted():
                lifecycle.hear(node, [WrapsPending()])
            case InboxMoved(client=client):
                lifecycle.hear(node, [InboxChanged(client)])
            case SigningWanted():
                lifecycle.hear(node, [EventsToSign(0)])
            case PushWanted():
                lifecycle.hear(node, [PushDue()])
            case KeysChanged() | RolloutMoved():
                node.foreign_commits.ring()
            case Anything():
                self._drop_all()
                self._look_again()
            case _:
                node.commands.neighbours.hear(message, notice.node)

    def _lose_touch(self) -> None:
        self.is_in_touch = False
        self._drop_all()

    def _drop_all(self) -> None:
        """Nobody may rely on what is remembered."""
        node = self._node
        node.tokens.forget_all()
        node.client_tokens.forget_all()
        node.collector_tokens.forget_all()
        node.poll.bell.forget_all()
        node.commands.poll.bell.forget_all()
        node.commands.changes.lost_touch()
        node.events.poll.bell.forget_all()

    def _look_again(self) -> None:
        """Everything that others may have told meanwhile is read again."""
        log.info("other nodes are heard", node=self.name)
        self.is_in_touch = True
        self._drop_all()
        self._node.commands.neighbours.start_again()
        self._node.poll.look_again()
        lifecycle.hear(self._node, [ForeignCommit()])
