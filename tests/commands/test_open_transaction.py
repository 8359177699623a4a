"""Beside a transaction that somebody has left open, which keeps PostgreSQL from clearing up behind us: what claims and
ACKs read does not grow with what was handed out since. In pages, not in time."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from restante.commands import acks, audit, claims, rate_windows, site_quiet
from restante.commands.acks import Taken
from restante.commands.parts import CommandsOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.database.database import Database
from restante.database.postgres import PostgresEngine
from restante.database.queries import Query
from tests.commands.field import Field, Hired

PAIRS = 300
RAISE_EVERY = 16
# What each may read after that many; without anything to step over it is about ten.
PAGES_MAX = PAIRS // 5
# What one that steps over all of them reads at least.
PAGES_OF_ALL = PAIRS * 2 // 3
KIND = "SET_FAN"
PART = Query("part", "SELECT part FROM audit_checkpoints WHERE chain = 1")
# Neighbours in the queue lie on different pages, so that each entry that is stepped over shows as one.
FILL = """
INSERT INTO miner_commands (command_id, site_id, zone_id, miner_id, command_type, params, rank, status, expires_at,
                            created_at, created_by, max_retries, retry_backoff_sec)
SELECT 'cmd_' || n, 1, 1, 1, 'SET_FAN', '{"speed":80}', n * 389 % 1009, 'pending', 4000000000000, 1, 'tests', 3, 0
FROM generate_series(1, 1000) AS n
"""


class Site:
    """A site with a long queue, and a collector that works through it."""

    def __init__(self, url: str) -> None:
        self._engine = PostgresEngine(url)
        self.database = Database(self._engine)
        rates = RateRules({}, RateLimit(1_000_000, 60))
        self.field = Field(self.database, CommandsOptions(rates=rates, lease_seconds=3600))
        self.hired: Hired = self.field.hire(self.field.add_site())
        with psycopg.connect(url) as conn:
            conn.execute(FILL)

    def work(self, pairs: int) -> None:
        for _ in range(pairs):
            (command,) = self.field.claim(self.hired.caller, 1).commands
            assert isinstance(self.field.ack(self.hired.caller, command.command_id, "succeeded"), Taken)

    def pages(self, query: Query, **parameters: Any) -> int:
        """How many pages the statement touches, as our connections plan it; what it changes is undone."""
        explained = Query("plan", f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query.for_engine('postgres')}")
        with closing(self._engine.connect(writable=True)) as conn:
            conn.begin()
            ((said,),) = conn.values(explained, **parameters)
            conn.rollback()
        plan = said[0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    def pages_of_all(self) -> dict[str, int]:
        now_ms = self.database.read_now(lambda conn: conn.now_ms)
        kind = {"site_id": 1, "zone_id": 1, "command_type": KIND, "count_max": 1}
        window = {"sites": "[1]", "command_type": KIND, "past": now_ms - 1000, "ahead": now_ms + 60_000}
        part = self.database.read_now(lambda conn: conn.values(PART))[0][0]
        checkpoint = {"chain": 1, "part": part, "n": 1, "hash": b"", "at": 1, "signature": b""}
        asked: list[tuple[Query, dict[str, Any]]] = [
            (claims.SQL.ready, {"keys": "[1]", "limit": 2}),
            (claims.SQL.ready_in_zone, {"keys": "[1]", "limit": 2}),
            (claims.SQL.count_held_back, kind),
            (claims.SQL.count_held_back_in_zone, kind),
            (site_quiet.SQL.quiet, {"sites": "[1]"}),
            (site_quiet.SQL.disturb, {"site_id": 1, "at": 1}),
            (audit.SQL.checkpoints, {"chains": "[1]"}),
            (audit.SQL.put_checkpoint, checkpoint),
            (audit.SQL.drop_checkpoint, {"chain": 1, "part": part}),
            (acks.SQL.commands, {"command_ids": f'["cmd_{PAIRS}"]'}),
            (rate_windows.SQL.window_ends, window),
        ]
        return {query.name: self.pages(query, **parameters) for query, parameters in asked}


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


def test_what_claims_and_acks_read_does_not_grow(site: Site) -> None:
    site.work(PAIRS)
    assert {name: pages for name, pages in site.pages_of_all().items() if pages > PAGES_MAX} == {}
    # Else this would show nothing: everything that was handed out since is still there, to be stepped over.
    from_the_start = Query("from_the_start", claims.SQL.count_held_back_in_zone.text)
    assert site.pages(from_the_start, zone_id=1, command_type=KIND, count_max=1) > PAGES_OF_ALL


def test_for_a_command_that_comes_back_is_looked_further_back_once(site: Site) -> None:
    (early,) = site.field.claim(site.hired.caller, 1).commands
    site.work(PAIRS)
    site.field.ack(site.hired.caller, early.command_id, "deferred")
    over = Query("over", "UPDATE miner_commands SET next_attempt_at = NULL WHERE command_id = :command_id")
    site.database.write_now(lambda conn: conn.run(over, command_id=early.command_id))
    assert site.pages(claims.SQL.ready, keys="[1]", limit=2) > PAGES_OF_ALL
    (again,) = site.field.claim(site.hired.caller, 1).commands
    assert again.command_id == early.command_id
    assert site.pages(claims.SQL.ready, keys="[1]", limit=2) <= PAGES_MAX
