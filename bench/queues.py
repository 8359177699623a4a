"""Leases on PostgreSQL: commands taken and acknowledged, against other queues on the same server; and beside a
transaction that somebody has left open, which keeps the server from clearing up behind us."""

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from bench.other_queues import (
    Pair,
    beanstalkd_pairs_per_second,
    pgqueuer_pairs_per_second,
    procrastinate_pairs_per_second,
    repeat,
)
from restante.commands import acks, claims, collectors, sites
from restante.commands.ack_body import AckBody, read_ack
from restante.commands.acks import AckOptions, Said
from restante.commands.audit import AuditTrail
from restante.commands.claims import Claim, ClaimOptions
from restante.commands.collectors import SecretBox
from restante.commands.rate_windows import RateLimit, RateRules
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.postgres import PostgresEngine
from restante.identity import collector_tokens
from restante.identity.master_key import MasterKey
from tests.services.postgres import PostgresServer, postgres_server

WIDTHS = (1, 4, 16, 64)
COMMANDS = 60_000
# More than are done in the time it takes.
PINNED_COMMANDS = 700_000
# As durable as a server is that nobody has changed.
DURABLE = ("fsync=on", "synchronous_commit=on", "shared_buffers=256MB")
PINNED_SECONDS = 120.0
PINNED_WIDTH = 16

_FILL = """
INSERT INTO miner_commands (command_id, site_id, zone_id, miner_id, command_type, params, rank, status,
                            expires_at, created_at, created_by, max_retries, retry_backoff_sec)
SELECT 'cmd_' || n, site.id, zone.id, 1, 'SET_FAN', '{"speed":80}', n, 'pending',
       4000000000000, 1, 'bench', 3, 30
FROM generate_series(1, %s) AS n
JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place, count(*) OVER () AS places FROM edge_sites) AS site
  ON site.place = n %% site.places
JOIN edge_zones AS zone ON zone.site_id = site.id
"""


class Restante:
    """Collectors that lease and acknowledge through the database layer, as the server's polls and ACKs do."""

    def __init__(self, url: str, width: int, site_count: int, commands: int = COMMANDS) -> None:
        engine = PostgresEngine(url)
        migrate(engine)
        self.database = Database(engine)
        self._trail, self._box = AuditTrail(bytes(32)), SecretBox(MasterKey(bytes(32)))
        tokens = self.database.write_now(self._add_collectors, width, site_count)
        self.callers = [self.database.read_now(collector_tokens.find, token) for token in tokens]
        with psycopg.connect(url) as conn:
            conn.execute(_FILL, (commands,))
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE miner_commands")
        options, ack_options = ClaimOptions(60, RateRules({}, RateLimit(1_000_000, 60))), AckOptions(self._box)
        self._claiming = claims.claiming(self._trail, options)
        self._taking = acks.taking_acks(self._trail, ack_options)
        self._done = read_ack(AckBody(status="succeeded", result_code=0), b"{}")
        self.claim_seconds: list[float] = []

    def workers(self) -> list[Pair]:
        return [self._worker(caller) for caller in self.callers]

    def _worker(self, caller: Any) -> Pair:
        async def pair() -> bool:
            started = time.perf_counter()
            claimed = await self.database.run_hot(self._claiming, Claim(caller, None, 1))
            self.claim_seconds.append(time.perf_counter() - started)
            if not claimed.commands:
                return False
            taken = await self.database.run_hot(self._taking, Said(caller, claimed.commands[0].command_id, self._done))
            return isinstance(taken, acks.Taken)

        return pair

    def _add_collectors(self, conn: Connection, width: int, site_count: int) -> list[str]:
        made = [sites.add(conn, self._trail, f"site {number}", "bench").id for number in range(site_count)]
        return [
            collectors.create(
                conn, self._trail, self._box, made[number % site_count], None, f"c{number}", "bench"
            ).token
            for number in range(width)
        ]

    def close(self) -> None:
        self.database.close()


def _ours(server: PostgresServer, width: int, site_count: int) -> float:
    with closing(Restante(server.create(), width, site_count)) as restante:
        return asyncio.run(repeat(restante.workers()))


def leases() -> dict[str, float]:
    """Pairs of lease and completion a second, by number of workers, one job at a time each."""
    figures: dict[str, float] = {}
    with postgres_server(*DURABLE) as server:
        for width in WIDTHS:
            ours = {"a site each": _ours(server, width, width), "one site": _ours(server, width, 1)}
            others = {
                "procrastinate": asyncio.run(procrastinate_pairs_per_second(server.create(), width)),
                "pgqueuer": asyncio.run(pgqueuer_pairs_per_second(server.create(), width)),
            }
            for name, rate in ours.items():
                figures[f"{width:>2} workers: restante, {name}, pairs/s"] = rate
            for name, rate in others.items():
                figures[f"{width:>2} workers: {name}, pairs/s"] = rate
            figures[f"{width:>2} workers: beanstalkd, flushing, pairs/s"] = beanstalkd_pairs_per_second(width)
            figures[f"{width:>2} workers: ours at worst, to the better queue"] = min(ours.values()) / max(
                others.values()
            )
    return figures


def beside_an_open_transaction() -> dict[str, float]:
    """How long claims take while somebody's transaction stays open, and while none does."""
    with postgres_server(*DURABLE) as server:
        url = server.create()
        with closing(Restante(url, PINNED_WIDTH, PINNED_WIDTH, PINNED_COMMANDS)) as restante:
            free = _claims(restante, PINNED_SECONDS / 4)
            with _open_transaction(url):
                pinned = _claims(restante, PINNED_SECONDS)
    return {
        "claim p99 without it, ms": free[0],
        f"claim p99 with one open for {PINNED_SECONDS:.0f} s, ms": pinned[0],
        "ratio": pinned[0] / free[0],
        "pairs/s without it": free[1],
        "pairs/s with it": pinned[1],
    }


def _claims(restante: Restante, seconds: float) -> tuple[float, float]:
    """The 99th percentile of claims in milliseconds, and the pairs a second."""
    restante.claim_seconds.clear()
    rate = asyncio.run(repeat(restante.workers(), seconds))
    return statistics.quantiles(restante.claim_seconds, n=100)[98] * 1000, rate


@contextmanager
def _open_transaction(url: str) -> Iterator[None]:
    with psycopg.connect(url) as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT count(*) FROM miner_commands")
        yield
        conn.rollback()
