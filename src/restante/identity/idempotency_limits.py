"""How many idempotency keys are kept: bounds for each caller and for all, in rows and in bytes.

    every minute: usage of each caller, from an index ─▶ more than its share? ─▶ its oldest keys are deleted

A key protects repetitions of one request, which come within seconds or minutes. So the oldest keys of the caller that
stores most go first, and a caller never loses a key because of another one that stores more. Refusing requests instead
would stop a caller that works as it should, for up to 48 hours.

Invariant: after a pass no caller has more than its bounds, and all together have no more than four times as much.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

log = structlog.get_logger()

INTERVAL_SECONDS = 60.0
# All callers together may have so many times the bounds of one.
CALLERS = 4
# Small enough that a pass never occupies the writer for long.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class IdempotencyLimits:
    """The bounds of each caller."""

    keys_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class Usage:
    keys: int
    bytes: int


class IdempotencyKeeper:
    def __init__(self, database: Database, limits: IdempotencyLimits) -> None:
        self._database = database
        self._limits = limits

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            try:
                await self.run_once()
            except DatabaseError as error:
                log.error("idempotency keys not bounded, will be retried", error=str(error))

    async def run_once(self) -> int:
        """Delete what is over the bounds; return how many keys that were."""
        usages = await self._database.read(read_usages)
        deleted = 0
        for actor, excess in excesses(usages, self._limits).items():
            of_actor = 0
            while (excess.keys > 0 or excess.bytes > 0) and (
                batch := await self._database.write(delete_oldest, actor, excess)
            ).keys:
                of_actor += batch.keys
                excess = Usage(excess.keys - batch.keys, excess.bytes - batch.bytes)
            log.warning("idempotency keys deleted early, their caller stores too many", actor=actor, count=of_actor)
            deleted += of_actor
        return deleted


def read_usages(conn: Connection) -> dict[str, Usage]:
    return {row["actor"]: Usage(row["keys"], row["bytes"]) for row in conn.all(SQL.usages)}


def excesses(usages: Mapping[str, Usage], limits: IdempotencyLimits) -> dict[str, Usage]:
    """What each caller has over its bounds; callers with nothing over them are left out."""
    keys = fair_shares({actor: usage.keys for actor, usage in usages.items()}, limits.keys_max)
    sizes = fair_shares({actor: usage.bytes for actor, usage in usages.items()}, limits.bytes_max)
    over = {actor: Usage(usage.keys - keys[actor], usage.bytes - sizes[actor]) for actor, usage in usages.items()}
    return {actor: usage for actor, usage in over.items() if usage.keys > 0 or usage.bytes > 0}


def fair_shares(used: Mapping[str, int], each_max: int) -> dict[str, int]:
    """What each caller may keep of what it uses. If all together use too much, those that use most give up most."""
    shares: dict[str, int] = {}
    left = CALLERS * each_max
    for place, (actor, amount) in enumerate(sorted(used.items(), key=lambda item: item[1])):
        shares[actor] = min(amount, each_max, left // (len(used) - place))
        left -= shares[actor]
    return shares


def delete_oldest(conn: Connection, actor: str, excess: Usage) -> Usage:
    """Delete the oldest keys of the caller until the excess is gone, at most one batch; return what was deleted."""
    keys: list[tuple[str, str]] = []
    size = 0
    for row in conn.all(SQL.oldest, actor=actor, batch=BATCH):
        if len(keys) >= excess.keys and size >= excess.bytes:
            break
        keys.append((actor, row["key"]))
        size += row["size"]
    conn.run_rows(SQL.delete, keys)
    return Usage(len(keys), size)
