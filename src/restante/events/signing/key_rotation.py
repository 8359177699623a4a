"""Makes and rotates the event signing keys.

A missing key is made at the start of a node and when a client is registered, so that it is published before the first
event exists. Keys rotate on an operator's request, and automatically when the newest key is old enough: a service
checks periodically. The first process that finds a rotation due generates the key; the key is published for the lead
time and then signs (see `event_keys`).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec
import structlog

from restante.core.iso_time import Timestamp, iso_precise
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.events.signing import event_keys
from restante.identity.master_key import MasterKey

log = structlog.get_logger()

INTERVAL_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationOptions:
    """`days`: the age at which keys rotate automatically; 0: never."""

    days: int
    lead_seconds: int
    overlap_seconds: int


class RotatedEventKey(msgspec.Struct, frozen=True):
    kid: str
    signs_from: Timestamp


class WithdrawnEventKey(msgspec.Struct, frozen=True):
    """`signed_again`: the number of tokens that no client had received."""

    kid: str
    signed_again: int


class KeyRotation:
    def __init__(self, database: Database, master_key: MasterKey, options: RotationOptions) -> None:
        self._database = database
        self._master_key = master_key
        self._options = options

    async def run(self) -> None:
        while self._options.days:
            try:
                await self.run_once()
            except DatabaseError as error:
                log.error("event key rotation failed, retrying later", error=str(error))
            await asyncio.sleep(INTERVAL_SECONDS)

    async def make_missing(self, algorithms: Iterable[str]) -> None:
        """Make a key for each of these algorithms that has none. Of several nodes that do so at once, one stores it."""
        for alg in await self._database.read(event_keys.missing_algorithms, list(algorithms)):
            key = await asyncio.to_thread(event_keys.generate, self._master_key, alg)
            stored = await self._database.write(event_keys.store_first, key)
            log.info("event signing key created", alg=alg, kid=stored.kid)

    async def run_once(self) -> list[str]:
        """Rotate the keys that are due; return their algorithms."""
        options = self._options
        rotated = []
        for alg in await self._database.read(event_keys.due_algorithms, options.days):
            key = await asyncio.to_thread(event_keys.generate, self._master_key, alg)
            if await self._database.write(
                event_keys.rotate_if_due, key, options.days, options.lead_seconds, options.overlap_seconds
            ):
                log.info("event signing key rotated", alg=alg, kid=key.kid)
                rotated.append(alg)
        return rotated

    async def rotate(self, alg: str, actor: str) -> RotatedEventKey:
        key = await asyncio.to_thread(event_keys.generate, self._master_key, alg)
        options = self._options
        signs_from = await self._database.write(
            event_keys.rotate, key, options.lead_seconds, options.overlap_seconds, actor
        )
        return RotatedEventKey(key.kid, iso_precise(signs_from))

    async def withdraw(self, kid: str, actor: str) -> WithdrawnEventKey:
        alg = await self._database.read(event_keys.algorithm_of, kid)
        successor = await asyncio.to_thread(event_keys.generate, self._master_key, alg)
        return WithdrawnEventKey(kid, await self._database.write(event_keys.withdraw, kid, successor, actor))
