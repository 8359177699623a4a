"""Telemetry with rules: records per second over HTTP, compared with the same batches ingested without HTTP."""

import asyncio
import http.client
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.data import edge_data
from bench.tools.processes import SERVER_CORE, free_port, pinned, serve_command
from restante.commands.audit.audit_trail import KEY_PURPOSE, AuditTrail
from restante.commands.collector_budgets import BudgetOptions, CollectorBudgets
from restante.commands.counters import CommandCounters
from restante.commands.rules import rules
from restante.commands.rules.rule_actions import RuleActions
from restante.commands.rules.rule_evaluation import RuleEvaluator
from restante.commands.rules.rules import RuleRequest
from restante.commands.sites import miners
from restante.commands.sites.collectors import SecretBox
from restante.commands.sites.miners import MinerRequest
from restante.commands.telemetry.ingest import TelemetryIngest
from restante.commands.telemetry.telemetry_records import parse_batch
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity.master_key import MasterKeySource
from restante.server.config.options import commands_options
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder

SITE = 1
MINERS = 500
RULES = 100
BATCHES = 120
HISTORY_RECORDS = 100
GAP_SECONDS = 300
# Metrics and thresholds: some samples cross some thresholds; most thresholds are never crossed.
WATCHED = (("temp_max", 83.5), ("temp_avg", 79.5), ("hashrate", 101.0), ("power", 3300.0))


def _populate(conn: Connection, trail: AuditTrail, box: SecretBox) -> None:
    for number in range(MINERS):
        miners.add(conn, trail, MinerRequest(SITE, f"miner {number}"), "bench")
    for number in range(RULES):
        metric, bound = WATCHED[number % len(WATCHED)]
        request = RuleRequest(
            name=f"rule {number}",
            site_id=SITE,
            trigger_type="threshold",
            trigger_metric=metric,
            trigger_operator=">",
            trigger_value=bound + number // len(WATCHED),
            trigger_duration_seconds=60,
            action_type="MINER_RESTART",
        )
        rules.create(conn, trail, box, request, "bench")


def _bodies(first_ms: int) -> Iterator[bytes]:
    """One batch for every ten seconds, with a record of every miner."""
    for number in range(BATCHES):
        ts = iso_precise(first_ms + number * 10_000)
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
        body = connection.getresponse().read()
        assert msgspec.json.decode(body)["processed"] == MINERS, body
    return len(bodies) * MINERS / (time.perf_counter() - started)


async def _directly(folder: DataFolder, trail: AuditTrail, box: SecretBox, bodies: list[bytes]) -> tuple[float, float]:
    database = Database(SqliteEngine(folder.database_path))
    counters = CommandCounters()
    ingest = TelemetryIngest(
        database,
        RuleEvaluator(RuleActions(trail, commands_options(Settings()).for_creation(box)), GAP_SECONDS),
        counters,
        HISTORY_RECORDS,
        unknown_miners_max=0,
        budgets=CollectorBudgets(BudgetOptions(), counters),
    )
    started = time.perf_counter()
    for body in bodies:
        await ingest.accept(SITE, parse_batch(body, SITE))
    seconds = time.perf_counter() - started
    database.close()
    return len(bodies) * MINERS / seconds, counters.rule_evals / seconds


def ingesting() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        edge = edge_data.prepare(Path(name) / "data", 1, 0)
        folder = edge.folder
        master_key = MasterKeySource(folder.master_key_path, None).make()
        trail, box = AuditTrail(master_key.derive_key(KEY_PURPOSE)), SecretBox(master_key)
        database = Database(SqliteEngine(folder.database_path))
        database.write_now(_populate, trail, box)
        database.close()
        now_ms = int(time.time() * 1000)
        port = free_port()
        with pinned(SERVER_CORE, serve_command(folder.path, port), port, log=Path(name) / "log"):
            over_http = _over_http(port, edge.tokens[0], list(_bodies(now_ms - 4_000_000)))
        direct, evals = asyncio.run(_directly(folder, trail, box, list(_bodies(now_ms - 2_000_000))))
    return {
        f"records/s over HTTP, {RULES} rules, batches of {MINERS}": over_http,
        "records/s ingested directly": direct,
        "ratio": over_http / direct,
        "rule evaluations/s, directly": evals,
    }
