"""The components of a node, addressed together: the only place where the node and the cluster call them.

Invariant: a handler that fails leaves no component with knowledge that may be wrong. All of them drop their
cached knowledge, and all parked polls read the database again.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import structlog

from restante.core.backoff import Backoff
from restante.database.commit_events import AnythingChanged, ClusterMessage, CommitOutcomeUnknown, ForeignCommit
from restante.database.errors import DatabaseUnavailable
from restante.delivery.wakeup import Wakeup
from restante.web.component import Component, EventHandler, MessageCompleter, MessageHandler, MessageOrigin

log = structlog.get_logger()

CATCH_UP_RETRY_SECONDS = 1.0
# Nine seconds in all.
START_RETRY = Backoff(base_seconds=0.05, max_seconds=1.0, attempts_max=13)


class ComponentList:
    def __init__(self, components: Iterable[Component]) -> None:
        self._components = list(components)
        self._catch_up_due = Wakeup()
        self._event_handlers: dict[type, list[EventHandler]] = {}
        self._message_handlers: dict[type, list[MessageHandler]] = {}
        self._completers: dict[type, MessageCompleter] = {}
        for component in self._components:
            own = component.cluster_message_handlers()
            for message_type, handle_message in own.items():
                self._message_handlers.setdefault(message_type, []).append(handle_message)
            for event_type, handle_event in component.commit_event_handlers().items():
                self._event_handlers.setdefault(event_type, []).append(handle_event)
                if event_type not in own:
                    self._message_handlers.setdefault(event_type, []).append(_without_origin(handle_event))
            self._completers.update(component.message_completers())

    def __iter__(self) -> Iterator[Component]:
        return iter(self._components)

    @property
    def cluster_messages(self) -> tuple[type[ClusterMessage], ...]:
        """Every type of message that this node understands."""
        handled = [each for each in self._message_handlers if issubclass(each, ClusterMessage)]
        return (*handled, AnythingChanged)

    async def start(self) -> None:
        """Read what polls need. A database that goes away at this very time gets a while to come back."""
        attempts = 0
        while True:
            try:
                for component in self._components:
                    await component.start()
                return
            except DatabaseUnavailable:
                attempts += 1
                pause = START_RETRY.delay_seconds(attempts)
                if pause is None:
                    raise
                await asyncio.sleep(pause)

    def handle_commit_events(self, events: Iterable[object]) -> None:
        for event in events:
            try:
                for handle in self._event_handlers.get(type(event), ()):
                    handle(event)
                self._handle_generally(event)
            except Exception:
                log.exception("commit event handler failed", commit_event=type(event).__name__)
                self.invalidate()

    def handle_cluster_message(self, message: ClusterMessage, origin: MessageOrigin) -> None:
        for handle in self._message_handlers.get(type(message), ()):
            handle(message, origin)
        self._handle_generally(message)

    def _handle_generally(self, event: object) -> None:
        match event:
            case CommitOutcomeUnknown() | AnythingChanged():
                self.invalidate()
            case ForeignCommit() | ClusterMessage(needs_catch_up=True):
                self._catch_up_due.wake()

    def complete(self, message: ClusterMessage, commit_id: int) -> ClusterMessage:
        completer = self._completers.get(type(message))
        return message if completer is None else completer(message, commit_id)

    def forget_all(self) -> None:
        for component in self._components:
            component.forget_all()

    def recheck(self) -> None:
        for component in self._components:
            component.recheck()

    def invalidate(self) -> None:
        """Anything may have changed: nothing is answered from memory, and all parked polls read again."""
        self.forget_all()
        self.recheck()

    async def catch_up(self) -> None:
        """Read again what other processes may have changed, each time they may have. Runs as a service."""
        while True:
            await self._catch_up_due.wait()
            try:
                for component in self._components:
                    await component.catch_up()
            except DatabaseUnavailable as error:
                log.warning("catching up waits for the database", error=str(error))
                self._catch_up_due.wake()
                await asyncio.sleep(CATCH_UP_RETRY_SECONDS)
            except Exception:
                # The service is restarted, and must not wait for the next change.
                self._catch_up_due.wake()
                raise

    def tick(self, now: float) -> None:
        for component in self._components:
            component.tick(now)

    def forget_full_buckets(self, now: float) -> None:
        for component in self._components:
            component.forget_full_buckets(now)

    @property
    def parked_count(self) -> int:
        return sum(component.parked_count for component in self._components)

    def close(self) -> None:
        for component in self._components:
            component.close()

    async def finish(self) -> None:
        for component in self._components:
            await component.finish()


def _without_origin(handle: EventHandler) -> MessageHandler:
    def handle_message(message: Any, _origin: MessageOrigin) -> None:
        handle(message)

    return handle_message
