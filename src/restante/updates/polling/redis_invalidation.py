"""Passes changes of devices' streams in Redis on to the poll, whether another server made them or this one.

This server already knows the tails of what it published itself. So if the device's tail is known, the end of the stream
is read first, in one batch for all streams that change together, and the poll is notified only of a newer end.
"""

import asyncio

from restante.core.cursor import Position, parse_cursor
from restante.delivery.redis.redis_log import RedisLog
from restante.updates.polling.poll import UpdatesPoll

BATCH_MAX = 1000


class RedisInvalidation:
    def __init__(self, log: RedisLog, poll: UpdatesPoll) -> None:
        self._log = log
        self._poll = poll
        self._changed: dict[int, None] = {}
        self._task: asyncio.Task[None] | None = None

    def handle_change(self, device_id: int | None) -> None:
        """The stream of a device has changed; None: any stream may have."""
        self._log.counters.invalidations += 1
        if device_id is None:
            self._poll.notify_all()
        elif device_id not in self._poll.waiters.known:
            self._poll.notify(device_id)
        else:
            self._changed[device_id] = None
            if self._task is None:
                self._task = asyncio.ensure_future(self._read_ends())

    async def _read_ends(self) -> None:
        try:
            while self._changed:
                device_ids = list(self._changed)[:BATCH_MAX]
                for device_id in device_ids:
                    del self._changed[device_id]
                ends = await self._log.tails(device_ids)
                for device_id, end in zip(device_ids, ends, strict=True):
                    if self._is_newer(device_id, end):
                        self._poll.notify(device_id)
        finally:
            self._task = None

    def _is_newer(self, device_id: int, end: Position | None) -> bool:
        """Compare with the tail that is known now: it includes what this server published during the read."""
        known = self._poll.waiters.known.get(device_id)
        return known is None or end is None or end > parse_cursor(known.decode())
