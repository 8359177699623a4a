"""Hears that something was put into an outbox in a PostgreSQL database of the user's, where that says so by NOTIFY.

A hint and no more: the outbox is looked into whether anything is heard or not, so nothing depends on the connection.

Must always hold: each time it begins to listen it rings, as something may have come before. No password in a log line.
"""

import asyncio
import random
from collections.abc import Callable

import structlog

from restante.core.pace import Pace
from restante.database.errors import DatabaseError
from restante.database.outside import OutsideAddress
from restante.database.outside_drivers import ANSWER_SECONDS, CONNECT_SECONDS, DRIVERS, postgres_parameters

log = structlog.get_logger()
_chance = random.SystemRandom()

CHANNEL = "device_update_outbox"
# A connection that says nothing for so long is asked whether it is still there.
CHECK_SECONDS = 30.0


class OutsideListener:
    """Runs in the event loop, on a connection of its own."""

    def __init__(self, address: OutsideAddress, pace: Pace, ring: Callable[[], None]) -> None:
        self._address = address
        self._pace = pace
        self._ring = ring
        self.is_listening = False
        # How often in a row it could not.
        self.failures = 0
        # How often it began to listen, and how many notifications it has heard.
        self.begun_count = 0
        self.heard_count = 0

    async def run(self) -> None:
        while True:
            try:
                with DRIVERS["postgres"].our_errors():
                    await self._listen()
            except (DatabaseError, OSError, TimeoutError) as error:
                self.failures += 1
                if self.failures == 1:
                    log.warning(
                        "[device-outbox] notifications are not heard, the outbox is looked into all the same",
                        source=self._address.name,
                        error=f"{type(error).__name__}: {error}",
                    )
            finally:
                self.is_listening = False
            await asyncio.sleep(self._pace.after_failure(self.failures, _chance.random()))

    async def _listen(self) -> None:
        import psycopg

        parameters = postgres_parameters(self._address.url) | {"application_name": "restante listener"}
        async with asyncio.timeout(CONNECT_SECONDS * 2):
            conn = await psycopg.AsyncConnection.connect(**parameters, autocommit=True)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await conn.execute(f"LISTEN {CHANNEL}")
            self._note_begin()
            while True:
                async for _heard in conn.notifies(timeout=CHECK_SECONDS):
                    self.heard_count += 1
                    self._ring()
                async with asyncio.timeout(ANSWER_SECONDS):
                    await conn.execute("SELECT 1")
        finally:
            await conn.close()

    def _note_begin(self) -> None:
        if self.failures:
            log.info("[device-outbox] notifications are heard again", source=self._address.name)
        self.failures = 0
        self.is_listening = True
        self.begun_count += 1
        self._ring()
