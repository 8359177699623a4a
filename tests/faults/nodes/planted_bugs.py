"""Builds of a node for the tests with several nodes: one crashes between a commit and its cluster messages, one is slow
with its claimed rows. See `crash_point` for how to start them.
"""

import asyncio
import os
import signal

from restante.commands.lifecycle.ordering import CommandsChanged
from restante.delivery.log.log import LogAdvanced
from restante.delivery.outbox.dispatcher import Dispatcher
from restante.delivery.outbox.outbox import Outcome
from restante.server.cluster.cluster import Cluster
from restante.server.cluster.cluster_messages import messages_of
from tests.faults.crash_point import CrashPoint, replace, start

# Long enough that a paused dispatcher usually holds rows.
HOLDING_SECONDS = 0.15


def crash_before_publishing(_crash: CrashPoint) -> None:
    """Not a bug: a crash after a commit and before its messages are published to the other nodes."""

    def publish(_self: Cluster, events: list[object]) -> None:
        if any(isinstance(message, LogAdvanced | CommandsChanged) for message in messages_of(events)):
            os.kill(os.getpid(), signal.SIGKILL)

    replace(Cluster, "publish", publish)


def slow_dispatch(_crash: CrashPoint) -> None:
    """Not a bug: a dispatcher that holds its rows for a while before it delivers them."""
    deliver = Dispatcher._deliver

    async def deliver_slowly(self: Dispatcher, claimed: int) -> Outcome:
        await asyncio.sleep(HOLDING_SECONDS)
        return await deliver(self, claimed)

    replace(Dispatcher, "_deliver", deliver_slowly)


if __name__ == "__main__":
    start(crash_before_publishing, slow_dispatch)
