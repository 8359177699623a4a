"""Leases on PostgreSQL: commands leased and acknowledged, compared with other queues on the same server; and beside a
long-running transaction, which keeps the server from removing dead rows."""

import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import uvloop

from bench.commands.other_queues import (
    Pair,
    beanstalkd_pairs_per_second,
    on_both_loops,
    pgqueuer_pairs_per_second,
    plain_pairs_per_second,
    procrastinate_pairs_per_second,
    repeat,
)
from restante.commands.acks import acks
from restante.commands.acks.ack_schema import AckBody, parse_ack
from restante.commands.acks.acks import AckOptions, AckRequest
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import ClaimOptions, ClaimRequest
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.sites import collectors, sites
from restante.commands.sites.collectors import SecretBox
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.identity.clients import collector_tokens
from restante.identity.master_key import MasterKey
from restante.server.lifecycle import collect_garbage_rarely
from tests.defaults import new_postgres_engine
from tests.services.postgres import PostgresServer, postgres_server

WIDTHS = (1, 4, 16, 64)
# With one worker the queues are close to each other.
LEASE_ROUNDS = {1: 5, 4: 3, 16: 3, 64: 3}
OURS = ("restante, a site each", "restante, one site")
QUEUES = ("procrastinate", "pgqueuer")
PLAIN = "plain SKIP LOCKED in psycopg"
COMMANDS = 60_000
# More than are completed during the measurement.
OPEN_TRANSACTION_COMMANDS = 700_000
# The durability of PostgreSQL's defaults.
DURABLE = ("fsync=on", "synchronous_commit=on", "shared_buffers=256MB")
OPEN_TRANSACTION_SECONDS = 120.0
OPEN_TRANSACTION_WIDTH = 16
RATES = RateRules({}, RateLimit(1_000_000, 60))

_FILL = """
INSERT INTO miner_commands (command_id, site_id, zone_id, miner_id, command_type, params, rank, status,
                            expires_at, created_at, created_by, max_retries, retry_backoff_sec)
SELECT 'cmd_' || n, site.id, zone.id, n, 'SET_FAN', '{"speed":80}', n, 'pending',
       4000000000000, 1, 'bench', 3, 30
FROM generate_series(1, %s) AS n
JOIN (SELECT id, row_number() OVER (ORDER BY id) - 1 AS place, count(*) OVER () AS places FROM edge_sites) AS site
  ON site.place = n %% site.places
JOIN edge_zones AS zone ON zone.site_id = site.id
"""


class RestanteQueue:
    """Collectors that lease and acknowledge through the database layer, with the operations of the server."""

    def __init__(self, url: str, width: int, site_count: int, commands: int = COMMANDS) -> None:
        engine = new_postgres_engine(url)
        migrate(engine)
        self.database = Database(engine)
        self._trail, self._box = AuditTrail(bytes(32)), SecretBox(MasterKey(bytes(32)))
        tokens = self.database.write_now(self._add_collectors, width, site_count)
        self.callers = [self.database.read_now(collector_tokens.find, token) for token in tokens]
        with psycopg.connect(url) as conn:
            conn.execute(_FILL, (commands,))
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE miner_commands")
        options = ClaimOptions(60, RATES, is_signed=False, is_one_lease_per_miner=True)
        ack_options = AckOptions(self._box, is_nonce_required=False, is_signature_required=False)
        self._claim_operation = claims.claim_operation(self._trail, options)
        self._ack_operation = acks.ack_operation(self._trail, ack_options)
        self._succeeded = parse_ack(AckBody(status="succeeded", result_code=0), b"{}")
        self.claim_seconds: list[float] = []

    def workers(self) -> list[Pair]:
        return [self._worker(caller) for caller in self.callers]

    def _worker(self, caller: Any) -> Pair:
        async def pair() -> bool:
            started = time.perf_counter()
            claimed = await self.database.run_batched(self._claim_operation, ClaimRequest(caller, None, 1))
            self.claim_seconds.append(time.perf_counter() - started)
            if not claimed.commands:
                return False
            result = await self.database.run_batched(
                self._ack_operation, AckRequest(caller, claimed.commands[0].command_id, self._succeeded)
            )
            return isinstance(result, acks.AckResult)

        return pair

    def _add_collectors(self, conn: Connection, width: int, site_count: int) -> list[str]:
        site_ids = [sites.add(conn, self._trail, f"site {number}", "bench").id for number in range(site_count)]
        return [
            collectors.create(
                conn, self._trail, self._box, site_ids[number % site_count], None, f"c{number}", "bench"
            ).token
            for number in range(width)
        ]

    def close(self) -> None:
        self.database.close()


def _restante_pairs_per_second(server: PostgresServer, width: int, site_count: int) -> float:
    with closing(RestanteQueue(server.create(), width, site_count)) as queue:
        return uvloop.run(repeat(queue.workers()))


def leases() -> dict[str, float]:
    """Pairs of lease and completion per second, by number of workers, one job at a time each.

    All queues run in turn several times, because the load of the machine varies; their medians are compared. The
    process collects garbage as rarely as Restante's server, for all of them. The others run on two event loops, and the
    better one counts.
    """
    collect_garbage_rarely()
    figures: dict[str, float] = {}
    with postgres_server(*DURABLE) as server:
        for width in WIDTHS:
            rounds = [_lease_round(server, width) for _ in range(LEASE_ROUNDS[width])]
            medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
            for name, rate in medians.items():
                figures[f"{width:>2} workers: {name}, pairs/s"] = rate
            ours = min(rate for name, rate in medians.items() if name in OURS)
            figures[f"{width:>2} workers: ours at worst, to the better queue"] = ours / _best_of(QUEUES, medians)
            figures[f"{width:>2} workers: ours at worst, to the plain queue"] = ours / _best_of((PLAIN,), medians)
    return figures


def _best_of(queues: tuple[str, ...], rates: dict[str, float]) -> float:
    return max(rate for name, rate in rates.items() if name.startswith(queues))


def _lease_round(server: PostgresServer, width: int) -> dict[str, float]:
    rates = {OURS[0]: _restante_pairs_per_second(server, width, width)}
    if width > 1:
        rates[OURS[1]] = _restante_pairs_per_second(server, width, 1)
    rates |= on_both_loops(QUEUES[0], procrastinate_pairs_per_second, server, width)
    rates |= on_both_loops(QUEUES[1], pgqueuer_pairs_per_second, server, width)
    rates |= on_both_loops(PLAIN, plain_pairs_per_second, server, width)
    rates["beanstalkd, flushing"] = beanstalkd_pairs_per_second(width)
    return rates


def beside_an_open_transaction() -> dict[str, float]:
    """How long claims take with and without a long-running transaction."""
    with postgres_server(*DURABLE) as server:
        url = server.create()
        with closing(
            RestanteQueue(url, OPEN_TRANSACTION_WIDTH, OPEN_TRANSACTION_WIDTH, OPEN_TRANSACTION_COMMANDS)
        ) as queue:
            without = _claims(queue, OPEN_TRANSACTION_SECONDS / 4)
            with _open_transaction(url):
                beside = _claims(queue, OPEN_TRANSACTION_SECONDS)
    return {
        "claim p99 without it, ms": without[0],
        f"claim p99 with one open for {OPEN_TRANSACTION_SECONDS:.0f} s, ms": beside[0],
        "ratio": beside[0] / without[0],
        "pairs/s without it": without[1],
        "pairs/s with it": beside[1],
    }


def _claims(queue: RestanteQueue, seconds: float) -> tuple[float, float]:
    """The 99th percentile of claims in milliseconds, and the pairs per second."""
    queue.claim_seconds.clear()
    rate = uvloop.run(repeat(queue.workers(), seconds))
    return statistics.quantiles(queue.claim_seconds, n=100)[98] * 1000, rate


@contextmanager
def _open_transaction(url: str) -> Iterator[None]:
    with psycopg.connect(url) as conn:
        conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT count(*) FROM miner_commands")
        yield
        conn.rollback()
