"""The order in which commit events are published when several connections commit at the same time.

    before the commit: issue a ticket ─▶ COMMIT returns ─▶ wait for all earlier tickets ─▶ publish

A transaction that changes a recipient locks it until it ends. The second of two such transactions therefore begins
its commit after the first has ended in the database, and gets the later ticket.

Invariant: the events of commits that concern one recipient are published in the order of the commits, whichever
thread returns from its COMMIT first.
"""

import threading
from collections.abc import Callable


class CommitOrder:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._last_ticket = 0
        self._open: set[int] = set()

    def issue_ticket(self) -> int:
        """Called before the commit begins."""
        with self._changed:
            self._last_ticket += 1
            self._open.add(self._last_ticket)
            return self._last_ticket

    def release_ticket(self, ticket: int) -> None:
        """The commit failed or has no events: later tickets need not wait for it."""
        with self._changed:
            self._open.discard(ticket)
            self._changed.notify_all()

    def publish_in_order(self, ticket: int, publish: Callable[[], None]) -> None:
        """Call `publish` when all earlier tickets have been published or released."""
        with self._changed:
            self._changed.wait_for(lambda: min(self._open) == ticket)
            publish()
            self._open.discard(ticket)
            self._changed.notify_all()
