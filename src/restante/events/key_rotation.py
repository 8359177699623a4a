"""Rotation of the event signing keys: by an operator, and by itself when the newest key is old enough.

The service looks now and then. Whichever process is first makes the new key; it is published for the lead, and then
takes over (`event_keys.py`).
"""

import asyncio
from dataclasses import dataclass

import msgspec
import structlog

from restante.core.iso_time import iso
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.events import event_keys
from restante.identity.master_key import MasterKey

log = structlog.get_logger()

INTERVAL_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationOptions:
    """No days: never by itself."""

    days: int = 90
    lead_seconds: int = 86_400
    overlap_seconds: int = 30 * 86_400


class Rotated(msgspec.Struct, frozen=True):
    kid: str
    signs_from: str


class Withdrawn(msgspec.Struct, frozen=True):
    """How many tokens are signed again, as nobody had them yet."""

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
                log.error("keys could not be rotated, it is tried again", error=str(error))
            await asyncio.sleep(INTERVAL_SECONDS)

    async def run_once(self) -> list[str]:
        """Rotate what is due; the algorithms."""
        options = self._options
        rotated = []
        for alg in await self._database.read(event_keys.due_algorithms, options.days):
            key = await asyncio.to_thread(event_keys.make, self._master_key, alg)
            if await self._database.write(
                event_keys.rotate_if_due, key, options.days, options.lead_seconds, options.overlap_seconds
            ):
                log.info("a new event signing key is published", alg=alg, kid=key.kid)
                rotated.append(alg)
        return rotated

    async def rotate(self, alg: str, actor: str) -> Rotated:
        key = await asyncio.to_thread(event_keys.make, self._master_key, alg)
        options = self._options
        signs_from = await self._database.write(
            event_keys.rotate, key, options.lead_seconds, options.overlap_seconds, actor
        )
        return Rotated(key.kid, iso(signs_from))

    async def withdraw(self, kid: str, actor: str) -> Withdrawn:
        alg = await self._database.read(event_keys.algorithm_of, kid)
        successor = await asyncio.to_thread(event_keys.make, self._master_key, alg)
        return Withdrawn(kid, await self._database.write(event_keys.withdraw, kid, successor, actor))
