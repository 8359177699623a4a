"""Rings from Redis, passed on to the poll: some device's stream was changed, by another server or by this one.

What this server published it has heard already. So a stream that ends no later than the device's known tail is no
news, and costs one look at its end, together with all that ring in the same moment; any other is.
"""

import asyncio

from restante.core.cursor import Position, parse_cursor
from restante.delivery.redis_log import RedisLog
from restante.updates.poll import Poll

BATCH_MAX = 1000


class StreamRings:
    def __init__(self, log: RedisLog, poll: Poll) -> None:
        self._log = log
        self._poll = poll
        self._rung: dict[int, None] = {}
        self._task: asyncio.Task[None] | None = None

    def hear(self, device_id: int | None) -> None:
        """A device's stream was changed; None: any may have been."""
        self._log.totals.rings += 1
        if device_id is None:
            self._poll.look_again()
        elif device_id not in self._poll.bell.known:
            self._poll.ring(device_id)
        else:
            self._rung[device_id] = None
            if self._task is None:
                self._task = asyncio.ensure_future(self._look_at_ends())

    async def _look_at_ends(self) -> None:
        try:
            while self._rung:
                device_ids = list(self._rung)[:BATCH_MAX]
                for device_id in device_ids:
                    del self._rung[device_id]
                ends = await self._log.ends(device_ids)
                for device_id, end in zip(device_ids, ends, strict=True):
                    if self._is_news(device_id, end):
                        self._poll.ring(device_id)
        finally:
            self._task = None

    def _is_news(self, device_id: int, end: Position | None) -> bool:
        """Compared with what is known by now: what was published meanwhile has been heard meanwhile."""
        known = self._poll.bell.known.get(device_id)
        return known is None or end is None or end > parse_cursor(known.decode())
