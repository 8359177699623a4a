"""Batches reads of devices' states: requests that arrive while one batch is read form the next batch.

After a restart no token is known. A million first polls become a few thousand statements, each for many devices.

Invariant: each request gets its result, an error included, exactly once.
"""

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity.devices import device_owners
from restante.identity.devices.device_owners import Owned

log = structlog.get_logger()

BATCH_MAX = 512

# The generation of the access tokens that count; None: the device is not active, or not the user's.
StateResult = int | None | Exception


class StateRequest(msgspec.Struct, frozen=True):
    owned: Owned
    done: Callable[[StateResult], None]


class DeviceStates:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queued: list[StateRequest] = []
        self._task: asyncio.Task[None] | None = None

    def read(self, owned: Owned, done: Callable[[StateResult], None]) -> None:
        """Call `done` in the event loop with the result."""
        self._queued.append(StateRequest(owned, done))
        if self._task is None:
            self._task = asyncio.ensure_future(self._read_queued())

    async def token_generation(self, owned: Owned) -> int | None:
        future: asyncio.Future[StateResult] = asyncio.get_running_loop().create_future()
        self.read(owned, lambda result: None if future.done() else future.set_result(result))
        result = await future
        if isinstance(result, Exception):
            raise result
        return result

    async def _read_queued(self) -> None:
        while self._queued:
            batch, self._queued = self._queued[:BATCH_MAX], self._queued[BATCH_MAX:]
            results: list[StateResult]
            try:
                results = [*await self._database.read(read_batch, batch)]
            except Exception as error:
                # Every request of the batch fails; none waits for ever.
                results = [error] * len(batch)
            for request, result in zip(batch, results, strict=True):
                _resolve(request, result)
        self._task = None


def read_batch(conn: Connection, batch: list[StateRequest]) -> list[int | None]:
    generations = device_owners.token_generations(conn, {request.owned for request in batch})
    return [generations.get(request.owned) for request in batch]


def _resolve(request: StateRequest, result: StateResult) -> None:
    try:
        request.done(result)
    except Exception:
        # All other requests must still get their results.
        log.exception("callback of a device state failed", device_id=request.owned.device_id)
