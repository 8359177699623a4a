"""In which order commits are told, where several connections commit at the same time.

    begin the commit: a ticket ─▶ the database has it ─▶ wait for all earlier tickets ─▶ tell

Who decides about a recipient holds it until the end of the transaction, so the second of two such commits begins only
after the first has come to its end in the database, and has the later ticket. Must always hold: commits about
one recipient are told in the order they were committed in, whichever of their threads is first to hear of it.
"""

import threading
from collections.abc import Callable


class CommitOrder:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._next = 0
        self._open: set[int] = set()

    def take_ticket(self) -> int:
        """Before the commit begins."""
        with self._changed:
            self._next += 1
            self._open.add(self._next)
            return self._next

    def give_back(self, ticket: int) -> None:
        """There is nothing to tell, or nothing was committed: nobody waits for it."""
        with self._changed:
            self._open.discard(ticket)
            self._changed.notify_all()

    def tell(self, ticket: int, telling: Callable[[], None]) -> None:
        """Tell it when all that began earlier is told."""
        with self._changed:
            self._changed.wait_for(lambda: min(self._open) == ticket)
            telling()
            self._open.discard(ticket)
            self._changed.notify_all()
