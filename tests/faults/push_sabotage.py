"""Starts the server with a fault in its pushing of events built in, for tests of the checker that is to find it.

python -m tests.faults.push_sabotage FAULT die|live serve …
"""

from collections.abc import Callable
from typing import Any

from restante.core.callback_url import parse_callback_url
from restante.core.push_outcome import DELIVERED_STATUS
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.events import push, push_queue
from restante.events.push import Pusher
from restante.events.push_queue import Delivery, Holder, Result, Settled
from restante.events.receiver_client import ReceiverConnection
from tests.faults.sabotage import Crash, replace, start

# The campaign's receivers answer within moments, so that a lease need not outlast the time they would have.
SHORT_MARGIN_SECONDS = -12.0


def short_leases(_crash: Crash) -> None:
    """No fault at all: what a dead node held is let go after eight seconds instead of half a minute and more."""
    replace(push, "LEASE_MARGIN_SECONDS", SHORT_MARGIN_SECONDS)


def written_before_sent(crash: Crash) -> None:
    """An event is taken for delivered, and then it is sent."""

    async def send(self: Pusher, first: Delivery) -> None:
        connection = ReceiverConnection(self.client, parse_callback_url(first.url))
        delivery: Delivery | None = first
        try:
            while delivery is not None:
                following = await self._settle(delivery, Result(DELIVERED_STATUS), goes_on=True)
                crash.may_come()
                await connection.post(delivery.token.encode(), self._headers(delivery))
                delivery = following
        finally:
            connection.close()

    replace(Pusher, "_send", send)


def never_written(_crash: Crash) -> None:
    """That an event was delivered is forgotten."""
    settle = push_queue.settle

    def forgetful(
        conn: Connection, holder: Holder, rules: Any, sent: Delivery, result: Result, chance: float, *, goes_on: bool
    ) -> Settled:
        if result.status != DELIVERED_STATUS:
            return settle(conn, holder, rules, sent, result, chance, goes_on=goes_on)
        conn.run(push_queue.SQL.let_go, client=sent.client, profile=sent.profile, name=holder.name)
        return Settled("delivered", 0, None)

    replace(push_queue, "settle", forgetful)


def newest_first(_crash: Crash) -> None:
    oldest = push_queue.SQL.oldest_due
    replace(
        push_queue.SQL, "oldest_due", Query("newest_due", oldest.text.replace("ORDER BY i.id", "ORDER BY i.id DESC"))
    )


def claims_ignored(_crash: Crash) -> None:
    """Whoever wants to send takes the receiver, also from who is sending to it."""
    claim = push_queue.claim

    def take_all(conn: Connection, holder: Holder, limit: int) -> list[Delivery]:
        push_queue.release_all(conn)
        return claim(conn, holder, limit)

    replace(push_queue, "claim", take_all)


FAULTS: dict[str, Callable[[Crash], None]] = {
    fault.__name__: fault for fault in (short_leases, written_before_sent, never_written, newest_first, claims_ignored)
}

if __name__ == "__main__":
    start(FAULTS)
