"""An alarm wakes a background service: rung by whoever has work for it, or when its time is over.

A ring that comes while the service is at work is not lost: the next wait ends at once. Runs in the event loop's thread
only.
"""

import asyncio


class Alarm:
    def __init__(self) -> None:
        self._rung = asyncio.Event()
        self._stopped = asyncio.Event()
        self.is_stopping = False

    def ring(self) -> None:
        self._rung.set()

    def stop(self) -> None:
        """Wake the service for the last time."""
        self.is_stopping = True
        self._stopped.set()
        self._rung.set()

    async def wait(self, seconds: float | None = None) -> None:
        """Until rung, or so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()

    async def pause(self, seconds: float) -> None:
        """So long, or until stopped. A ring is kept for the next wait."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return
