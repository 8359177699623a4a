"""An open transaction keeps PostgreSQL from removing old row versions and index entries. The number of pages that
claims and ACKs read must not grow with the number of commands that were dispatched since it began."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from restante.commands.acks import acks
from restante.commands.acks.acks import AckResult
from restante.commands.audit import audit_trail
from restante.commands.dispatch import claims, next_due, rate_limits, ready_commands
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.database.database import Database
from restante.database.queries import Query
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import Collector, CommandsHarness
from tests.defaults import new_postgres_engine

PAIRS = 300
RAISE_EVERY = 16
# The limit for each query after that many commands. Without old entries it is about ten.
PAGES_MAX = PAIRS // 5
# A query that steps over all old entries reads at least this many.
PAGES_WITHOUT_WATERMARK = PAIRS * 2 // 3
COMMAND_TYPE = "SET_FAN"
PART = Query("part", "SELECT part FROM audit_checkpoints WHERE chain = 1")
READY_OF_SITE = {"sites": "[1]", "zones": "[]", "limit": 2, "one_per_miner": 1}
READY_OF_ZONE = {"sites": "[]", "zones": "[1]", "limit": 2, "one_per_miner": 1}
# Neighbours in the queue lie on different pages, so that each old entry costs a page.
INSERT_COMMANDS = """
INSERT INTO miner_commands (command_id, site_id, zone_id, miner_id, command_type, params, rank, status, expires_at,
                            created_at, created_by, max_retries, retry_backoff_sec)
SELECT 'cmd_' || n, 1, 1, n, 'SET_FAN', '{"speed":80}', n * 389 % 1009, 'pending', 4000000000000, 1, 'tests', 3, 0
FROM generate_series(1, 1000) AS n
"""


class Site:
    """A site with a long queue, and a collector that works through it."""

    def __init__(self, url: str) -> None:
        self._engine = new_postgres_engine(url)
        self.database = Database(self._engine)
        rates = RateRules({}, RateLimit(1_000_000, 60))
        options = commands_options(rates=rates, lease_seconds=3600, is_one_lease_per_miner=True)
        self.harness = CommandsHarness(self.database, options)
        self.collector: Collector = self.harness.add_collector(self.harness.add_site())
        with psycopg.connect(url) as conn:
            conn.execute(INSERT_COMMANDS)

    def work(self, pairs: int) -> None:
        for _ in range(pairs):
            (command,) = self.harness.claim(self.collector.caller, 1).commands
            assert isinstance(self.harness.ack(self.collector.caller, command.command_id, "succeeded"), AckResult)

    def pages(self, query: Query, **parameters: Any) -> int:
        """How many pages the statement reads, with the plan of our connections. Its changes are rolled back."""
        explained = Query("plan", f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query.for_engine('postgres')}")
        with closing(self._engine.connect(writable=True)) as conn:
            conn.begin()
            ((output,),) = conn.values(explained, **parameters)
            conn.rollback()
        plan = output[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    def pages_by_query(self) -> dict[str, int]:
        now_ms = self.database.read_now(lambda conn: conn.now_ms)
        waiting = {"zones": "[1]", "command_type": COMMAND_TYPE, "count_max": 1}
        window = {"sites": "[1]", "command_type": COMMAND_TYPE, "now_ms": now_ms, "window_ms": 1000}
        part = self.database.read_now(lambda conn: conn.values(PART))[0][0]
        checkpoint = {"chain": 1, "part": part, "n": 1, "hash": b"", "at": 1, "signature": b""}
        queries: list[tuple[Query, dict[str, Any]]] = [
            (ready_commands.SQL.ready, READY_OF_SITE),
            (ready_commands.SQL.ready._replace(name="ready of a zone"), READY_OF_ZONE),
            (ready_commands.SQL.count_waiting, waiting),
            (next_due.SQL.next_due, {"sites": "[1]"}),
            (next_due.SQL.lower_next_due, {"site_id": 1, "due_ms": 1}),
            (audit_trail.SQL.checkpoints, {"chains": "[1]"}),
            (audit_trail.SQL.put_checkpoint, checkpoint),
            (audit_trail.SQL.drop_checkpoint, {"chain": 1, "part": part}),
            (acks.SQL.commands, {"command_ids": f'["cmd_{PAIRS}"]'}),
            (rate_limits.SQL.window_ends, window),
        ]
        return {query.name: self.pages(query, **parameters) for query, parameters in queries}


@pytest.fixture
def site(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(claims, "RAISE_EVERY", RAISE_EVERY)
    site = Site(postgres_url)
    site.work(1)
    with psycopg.connect(postgres_url) as conn:
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT COUNT(*) FROM miner_commands")
        yield site
        conn.rollback()
    site.database.close()


def test_pages_read_by_claims_and_acks_do_not_grow(site: Site) -> None:
    site.work(PAIRS)
    assert {name: pages for name, pages in site.pages_by_query().items() if pages > PAGES_MAX} == {}
    # Proves that the old entries are still there: the same count without the watermark steps over them.
    without_watermark = Query("without_watermark", ready_commands.SQL.count_waiting.text)
    assert site.pages(without_watermark, zones="[1]", command_type=COMMAND_TYPE, count_max=1) > PAGES_WITHOUT_WATERMARK


def test_requeued_command_makes_one_claim_read_further_back(site: Site) -> None:
    (early,) = site.harness.claim(site.collector.caller, 1).commands
    site.work(PAIRS)
    site.harness.ack(site.collector.caller, early.command_id, "deferred")
    end_delay = Query("end_delay", "UPDATE miner_commands SET next_attempt_at = NULL WHERE command_id = :command_id")
    site.database.write_now(lambda conn: conn.run(end_delay, command_id=early.command_id))
    assert site.pages(ready_commands.SQL.ready, **READY_OF_SITE) > PAGES_WITHOUT_WATERMARK
    (again,) = site.harness.claim(site.collector.caller, 1).commands
    assert again.command_id == early.command_id
    assert site.pages(ready_commands.SQL.ready, **READY_OF_SITE) <= PAGES_MAX
