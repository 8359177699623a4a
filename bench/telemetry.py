"""Telemetry with rules: records a second over HTTP, beside the same batches taken without HTTP in the same run."""

import asyncio
import http.client
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench import edge_site
from bench.processes import SERVER_CORE, free_port, pinned
from restante.commands import miners, rules
from restante.commands.audit import KEY_PURPOSE, AuditTrail
from restante.commands.creation import CreationOptions
from restante.commands.ingest import Ingest
from restante.commands.miners import MinerWish
from restante.commands.rule_evaluation import RuleEvaluation
from restante.commands.rule_firing import Firing
from restante.commands.rules import RuleWish
from restante.commands.telemetry_records import parse_batch
from restante.commands.totals import CommandTotals
from restante.commands.wire import iso
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity.master_key import MasterKeySource
from restante.server.data_folder import DataFolder

SITE = 1
MINERS = 500
RULES = 100
BATCHES = 120
KEEP = 100
GAP_SECONDS = 300
# What is watched, and from where on: some thresholds are crossed by some samples, most by none.
WATCHED = (("temp_max", 83.5), ("temp_avg", 79.5), ("hashrate", 101.0), ("power", 3300.0))


def _populate(conn: Connection, trail: AuditTrail) -> None:
    for number in range(MINERS):
        miners.add(conn, trail, MinerWish(SITE, f"miner {number}"), "bench")
    for number in range(RULES):
        metric, bound = WATCHED[number % len(WATCHED)]
        wish = RuleWish(
            name=f"rule {number}",
            site_id=SITE,
            trigger_type="threshold",
            trigger_metric=metric,
            trigger_operator=">",
            trigger_value=bound + number // len(WATCHED),
            trigger_duration_seconds=60,
            action_type="MINER_RESTART",
        )
        rules.create(conn, trail, wish, "bench")


def _bodies(first_ms: int) -> Iterator[bytes]:
    """A batch with a record of every miner, for every ten seconds."""
    for number in range(BATCHES):
        ts = iso(first_ms + number * 10_000)
        yield msgspec.json.encode([_record(miner_id, ts) for miner_id in range(1, MINERS + 1)])


def _record(miner_id: int, ts: str) -> dict[str, object]:
    return {
        "miner_id": miner_id,
        "ts": ts,
        "temp_max": round(random.uniform(60, 84), 2),
        "temp_avg": round(random.uniform(50, 80), 2),
        "hashrate": round(random.uniform(95, 101), 2),
        "power": 3200,
        "fan_speed": 80,
    }


def _over_http(port: int, token: str, bodies: list[bytes]) -> float:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    started = time.perf_counter()
    for body in bodies:
        connection.request("POST", "/api/edge/v1/telemetry/batch", body, headers)
        answer = connection.getresponse().read()
        assert msgspec.json.decode(answer)["processed"] == MINERS, answer
    return len(bodies) * MINERS / (time.perf_counter() - started)


async def _directly(folder: DataFolder, trail: AuditTrail, bodies: list[bytes]) -> tuple[float, float]:
    database = Database(SqliteEngine(folder.database_path))
    totals = CommandTotals()
    ingest = Ingest(database, RuleEvaluation(Firing(trail, CreationOptions()), GAP_SECONDS), totals, KEEP)
    started = time.perf_counter()
    for body in bodies:
        await ingest.take(SITE, parse_batch(body, SITE))
    seconds = time.perf_counter() - started
    database.close()
    return len(bodies) * MINERS / seconds, totals.rule_evals / seconds


def ingesting() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        prepared = edge_site.prepare(Path(name) / "data", 1, 0)
        folder = prepared.folder
        trail = AuditTrail(MasterKeySource(folder.master_key_path, None).make().derived(KEY_PURPOSE))
        database = Database(SqliteEngine(folder.database_path))
        database.write_now(_populate, trail)
        database.close()
        now_ms = int(time.time() * 1000)
        port = free_port()
        serve = [str(Path(sys.executable).with_name("restante")), "serve", "--data", str(folder.path)]
        with pinned(SERVER_CORE, [*serve, "--listen", f"127.0.0.1:{port}"], port, log=Path(name) / "log"):
            served = _over_http(port, prepared.tokens[0], list(_bodies(now_ms - 4_000_000)))
        direct, evals = asyncio.run(_directly(folder, trail, list(_bodies(now_ms - 2_000_000))))
    return {
        f"records/s over HTTP, {RULES} rules, batches of {MINERS}": served,
        "records/s taken directly": direct,
        "ratio": served / direct,
        "rule evaluations/s, directly": evals,
    }
