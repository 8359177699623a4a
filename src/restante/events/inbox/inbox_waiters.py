"""The waiter registry of inboxes: which clients are known to have nothing in their inbox, and which polls wait.

    unknown ──learn_empty──▶ empty ──notify──▶ unknown, and all polls of the client are woken

A notification wakes all polls of a client, because each of them may get the same events.
"""

import time
from collections.abc import Callable

from restante.delivery.waiter_registry import Waiter, WaiterRegistry

CLIENTS_MAX = 1_000_000


class InboxWaiters(WaiterRegistry[None, Waiter]):
    def __init__(
        self,
        wake: Callable[[Waiter], None],
        monotonic: Callable[[], float] = time.monotonic,
        clients_max: int = CLIENTS_MAX,
    ) -> None:
        super().__init__(wake, clients_max, monotonic)
        # Polls read it directly: the clients with nothing in their inbox.
        self.empty = self.known
        # Client → the limit up to which a poll gets only events that are recorded as sent to it.
        self._recorded: dict[int, int] = {}

    def learn_empty(self, client: int, notification: int) -> None:
        """Remember that a read found nothing, unless a notification came after the read began."""
        if notification == self.last_notified(client):
            self.remember(client, None)

    def learn_recorded(self, client: int, limit: int, notification: int) -> None:
        """A poll with this limit has been recorded: the next one with no higher limit has nothing to record."""
        if notification == self.last_notified(client):
            if len(self._recorded) >= self._keys_max:
                self._recorded.clear()
            self._recorded[client] = limit

    def is_recorded(self, client: int, limit: int) -> bool:
        return limit <= self._recorded.get(client, -1)

    def forget(self, client: int) -> None:
        super().forget(client)
        self._recorded.pop(client, None)

    def forget_all(self) -> None:
        super().forget_all()
        self._recorded.clear()
