"""The commands of a queue that a claim may lease now: this module reads them, and counts those beyond a rate limit.

    queue (a site, or one zone of it) ─▶ of each type in each of its zones, the first `limit` commands by rank

One statement reads the queues of all claims of a batch. Its cost grows with the number of commands it returns, not with
the number that wait. This module does not decide on rate limits or leases.

Invariants: of each type in each zone of a queue, the result holds either every ready command or the first `limit`. It
is exact until the transaction ends, because the caller holds the lock of each site.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

WAITING_COUNT_MAX = 1000
# A bound of memory.
EXPECTED_SITES_MAX = 10_000

_encode = msgspec.json.Encoder().encode


class CommandQueue(msgspec.Struct, frozen=True):
    """A whole site, or one zone of it."""

    site_id: int
    zone_id: int | None


class ReadyCommand(msgspec.Struct, frozen=True, order=True):
    """A row of the query `ready`: the fields are its columns, in the same order. Commands compare in queue order.

    `is_miner_busy` is 1 if another command of the miner is leased: see `busy_miners`.
    `watermark` and `frontier` are None where the engine keeps no watermarks: see `ready_watermarks`.
    """

    rank: int
    id: int
    command_type: str
    command_id: str
    site_id: int
    zone_id: int
    miner_id: int | None
    params: str
    sealed_params: bytes | None
    priority: int
    expires_at: int
    dedupe_key: str | None
    attempt: int
    retry_count: int
    max_retries: int
    ready_at: int
    watermark: int | None
    frontier: int | None
    is_miner_busy: int


class WaitingCount(NamedTuple):
    """`horizon`: the count saw every transaction with a lower id. It is 0 where the engine has no such ids."""

    waiting: int
    horizon: int


class ReadyTypes:
    """The types of the commands that were ready at each site's last claim: most likely those of its next claim, so
    their rate windows are read together with the commands. A wrong guess costs one more read.

    Several writer threads use it: a set is replaced, never changed.
    """

    def __init__(self) -> None:
        self._by_site: dict[int, set[str]] = {}

    def expected(self, sites: Iterable[int]) -> list[tuple[int, str]]:
        return [(site_id, command_type) for site_id in sites for command_type in self._by_site.get(site_id, ())]

    def remember(self, sites: Iterable[int], found: Iterable[tuple[int, str]]) -> None:
        by_site: dict[int, set[str]] = {site_id: set() for site_id in sites}
        for site_id, command_type in found:
            by_site[site_id].add(command_type)
        if len(self._by_site) > EXPECTED_SITES_MAX:
            self._by_site.clear()
        self._by_site.update(by_site)


def prefetch_ready(
    conn: Connection,
    queues: Collection[CommandQueue],
    limits: Mapping[int, int],
    *,
    is_one_lease_per_miner: bool = False,
) -> Callable[[], dict[CommandQueue, list[ReadyCommand]]]:
    """Start to read the ready commands of each queue. The returned function yields them in queue order.

    `limits` gives, by site, how many commands of each type in each zone to read. `is_one_lease_per_miner`: find out
    which of their miners are busy.
    """
    ready: dict[CommandQueue, list[ReadyCommand]] = {queue: [] for queue in queues}
    of_site = {queue.site_id: commands for queue, commands in ready.items() if queue.zone_id is None}
    of_zone = {queue.zone_id: commands for queue, commands in ready.items() if queue.zone_id is not None}
    by_limit: dict[int, tuple[list[int], list[int]]] = {}
    for queue in queues:
        sites, zones = by_limit.setdefault(limits[queue.site_id], ([], []))
        if queue.zone_id is None:
            sites.append(queue.site_id)
        elif queue.site_id not in of_site:
            zones.append(queue.zone_id)
    results = [
        conn.prefetch(
            SQL.ready,
            sites=_encode(sites).decode(),
            zones=_encode(zones).decode(),
            limit=limit,
            one_per_miner=int(is_one_lease_per_miner),
        )
        for limit, (sites, zones) in by_limit.items()
    ]

    def fetch() -> dict[CommandQueue, list[ReadyCommand]]:
        for rows in results:
            for row in rows():
                command = ReadyCommand(*row)
                if command.site_id in of_site:
                    of_site[command.site_id].append(command)
                if command.zone_id in of_zone:
                    of_zone[command.zone_id].append(command)
        for commands in ready.values():
            commands.sort()
        return ready

    return fetch


def count_waiting(conn: Connection, zones: Collection[int], command_type: str) -> WaitingCount:
    """Count the ready commands of a type in the zones, up to a maximum."""
    row = conn.one(
        SQL.count_waiting, zones=_encode(zones).decode(), command_type=command_type, count_max=WAITING_COUNT_MAX
    )
    return WaitingCount(int(row["count"]), int(row["horizon"])) if row else WaitingCount(0, 0)
