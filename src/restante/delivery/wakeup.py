"""Wakes a background service: when there is work for it, or when its time is over.

A wake-up that comes while the service works is not lost: the next wait ends at once. Runs in the event loop's thread
only.
"""

import asyncio


class Wakeup:
    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self._stopped = asyncio.Event()
        self.is_stopping = False

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        """Wake the service for the last time."""
        self.is_stopping = True
        self._stopped.set()
        self._woken.set()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until woken, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until stopped. A wake-up meanwhile is kept for the next `wait`."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return
