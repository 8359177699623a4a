"""Builds of a node for the tests of several: one that dies between its commit and telling of it, and one that takes its
time with what it has claimed.

    python -m tests.faults.nodes_sabotage FAULT die|live serve …
"""

import asyncio
import os
import signal

from restante.delivery.dispatcher import Dispatcher
from restante.delivery.outbox import Outcome
from restante.server.announcements import LogMoved, SiteChanged, messages_of
from restante.server.neighbours import Neighbours
from tests.faults.sabotage import Crash, replace, start

# Long enough that whoever is stopped is stopped with rows in its hands, as a rule.
HOLDING_SECONDS = 0.15


def die_untold(_crash: Crash) -> None:
    """No fault at all: a crash after a commit that others must hear of, and before they are told."""

    def tell(_self: Neighbours, announced: list[object]) -> None:
        if any(isinstance(message, LogMoved | SiteChanged) for message in messages_of(announced)):
            os.kill(os.getpid(), signal.SIGKILL)

    replace(Neighbours, "tell", tell)


def slow_dispatch(_crash: Crash) -> None:
    """No fault either: a dispatcher that holds its rows for a while before it publishes them."""
    deliver = Dispatcher._deliver

    async def deliver_slowly(self: Dispatcher, claimed: int) -> Outcome:
        await asyncio.sleep(HOLDING_SECONDS)
        return await deliver(self, claimed)

    replace(Dispatcher, "_deliver", deliver_slowly)


if __name__ == "__main__":
    start({fault.__name__: fault for fault in (die_untold, slow_dispatch)})
