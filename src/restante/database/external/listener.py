"""Receives the NOTIFY of an outbox in an external PostgreSQL database, and wakes its dispatcher.

A notification is only a hint: the outbox is also polled, so correctness does not depend on this connection.

Invariants: it wakes the dispatcher each time it begins to listen, as rows may have been added before. No password in
a log line.
"""

import asyncio
import random
from collections.abc import Callable

import structlog

from restante.core.backoff import PollBackoff
from restante.database.errors import DatabaseError
from restante.database.external.drivers import CONNECT_SECONDS, DRIVERS, RESPONSE_SECONDS, postgres_parameters
from restante.database.external.external_database import ExternalAddress

log = structlog.get_logger()
_random = random.SystemRandom()

CHANNEL = "device_update_outbox"
# An idle connection is checked after this time.
CHECK_SECONDS = 30.0


class OutboxListener:
    """Runs in the event loop, on its own connection."""

    def __init__(self, address: ExternalAddress, pace: PollBackoff, wake: Callable[[], None]) -> None:
        self._address = address
        self._pace = pace
        self._wake = wake
        self.is_listening = False
        # Consecutive failures.
        self.failures = 0
        # How often it began to listen, and how many notifications it received.
        self.listen_count = 0
        self.received_count = 0

    async def run(self) -> None:
        while True:
            try:
                with DRIVERS["postgres"].translate_errors():
                    await self._listen()
            except (DatabaseError, OSError, TimeoutError) as error:
                self.failures += 1
                if self.failures == 1:
                    log.warning(
                        "[device-outbox] listening for notifications failed, the outbox is still polled",
                        source=self._address.name,
                        error=f"{type(error).__name__}: {error}",
                    )
            finally:
                self.is_listening = False
            await asyncio.sleep(self._pace.after_failure(self.failures, _random.random()))

    async def _listen(self) -> None:
        import psycopg

        parameters = postgres_parameters(self._address.url) | {"application_name": "restante listener"}
        async with asyncio.timeout(CONNECT_SECONDS * 2):
            conn = await psycopg.AsyncConnection.connect(**parameters, autocommit=True)
        try:
            async with asyncio.timeout(RESPONSE_SECONDS):
                await conn.execute(f"LISTEN {CHANNEL}")
            self._begin_listening()
            while True:
                async for _notification in conn.notifies(timeout=CHECK_SECONDS):
                    self.received_count += 1
                    self._wake()
                async with asyncio.timeout(RESPONSE_SECONDS):
                    await conn.execute("SELECT 1")
        finally:
            await conn.close()

    def _begin_listening(self) -> None:
        if self.failures:
            log.info("[device-outbox] listening for notifications again", source=self._address.name)
        self.failures = 0
        self.is_listening = True
        self.listen_count += 1
        self._wake()
