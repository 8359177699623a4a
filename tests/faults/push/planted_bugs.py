"""Bugs in the push of events, which the checker of push must find. See `crash_point` for how to start them."""

from typing import Any

from restante.core.events.callback_url import parse_callback_url
from restante.core.events.push_outcome import DELIVERED_STATUS, PushResult
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.events.push import push_queue, pusher
from restante.events.push.push_queue import LeaseHolder, PushDelivery, RecordedPush
from restante.events.push.pusher import Pusher
from restante.events.push.receiver_connection import ReceiverConnection
from tests.faults.crash_point import CrashPoint, replace, start

# The campaign's receivers respond at once, so a lease need not last for the whole push timeout.
SHORT_MARGIN_SECONDS = -12.0


def short_leases(_crash: CrashPoint) -> None:
    """Not a bug: the receivers of a killed node are released after eight seconds instead of more than half a minute."""
    replace(pusher, "LEASE_MARGIN_SECONDS", SHORT_MARGIN_SECONDS)


def acknowledge_before_sending(crash: CrashPoint) -> None:
    """An event is marked as delivered before it is sent."""

    async def send(self: Pusher, first: PushDelivery) -> None:
        connection = ReceiverConnection(self.client, parse_callback_url(first.url))
        delivery: PushDelivery | None = first
        try:
            while delivery is not None:
                following = await self._record(delivery, PushResult(DELIVERED_STATUS), keep_lease=True)
                crash.pass_by()
                await connection.post(delivery.token.encode(), self._headers(delivery))
                delivery = following
        finally:
            connection.close()

    replace(Pusher, "_send", send)


def never_acknowledge(_crash: CrashPoint) -> None:
    """The delivery of an event is not recorded."""
    record_result = push_queue.record_result

    def record_without_delivered(
        conn: Connection,
        holder: LeaseHolder,
        rules: Any,
        sent: PushDelivery,
        result: PushResult,
        chance: float,
        *,
        keep_lease: bool,
    ) -> RecordedPush:
        if result.status != DELIVERED_STATUS:
            return record_result(conn, holder, rules, sent, result, chance, keep_lease=keep_lease)
        conn.run(push_queue.SQL.release, client=sent.client, profile=sent.profile, name=holder.name)
        return RecordedPush("delivered", 0, None)

    replace(push_queue, "record_result", record_without_delivered)


def deliver_newest_first(_crash: CrashPoint) -> None:
    oldest = push_queue.SQL.oldest_due
    replace(
        push_queue.SQL, "oldest_due", Query("newest_due", oldest.text.replace("ORDER BY i.id", "ORDER BY i.id DESC"))
    )


def ignore_claims(_crash: CrashPoint) -> None:
    """A node claims a receiver even while another node sends to it."""
    acquire = push_queue.acquire

    def acquire_all(conn: Connection, holder: LeaseHolder, limit: int) -> list[PushDelivery]:
        push_queue.release_all(conn)
        return acquire(conn, holder, limit)

    replace(push_queue, "acquire", acquire_all)


if __name__ == "__main__":
    start(short_leases, acknowledge_before_sending, never_acknowledge, deliver_newest_first, ignore_claims)
