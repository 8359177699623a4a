"""A fleet that reports telemetry: two sites with miners, a collector, and a client of the real routes."""

from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.collector_budgets import BudgetOptions, CollectorBudgets
from restante.commands.counters import CommandCounters
from restante.commands.lifecycle.creation import CreationOptions
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.rules import rules
from restante.commands.rules.routes import RuleRoutes
from restante.commands.rules.rule_actions import RuleActions
from restante.commands.rules.rule_evaluation import RuleEvaluator
from restante.commands.rules.rule_sync import RuleSync
from restante.commands.rules.rule_timer import RuleTimer
from restante.commands.rules.rules import Rule, RuleRequest
from restante.commands.sites import collectors, miners, sites
from restante.commands.sites.collectors import SecretBox
from restante.commands.sites.miners import MinerRequest
from restante.commands.telemetry import telemetry
from restante.commands.telemetry.ingest import TelemetryIngest
from restante.commands.telemetry.routes_safety import SafetyRoutes
from restante.commands.telemetry.routes_telemetry import TelemetryRoutes
from restante.commands.telemetry.telemetry_records import Batch, Sample
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import CollectorCaller, Role
from restante.identity.clients.collector_tokens import CollectorTokens
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import AccessControl
from tests.commands.default_options import commands_options
from tests.conftest import START_MS, ManualClock
from tests.defaults import new_application, new_device_tokens

HISTORY_RECORDS = 5
UNKNOWN_MINERS_MAX = 3
GAP_SECONDS = 300
BODY_BYTES_MAX = 64 * 1024
ACTOR = "tests"


def iso_at(seconds: float) -> str:
    """The time so many seconds after the start of the test clock, as collectors write it."""
    return datetime.fromtimestamp(START_MS / 1000 + seconds, UTC).isoformat().replace("+00:00", "Z")


def sample(miner_id: int, seconds: float, index: int = 0, **fields: Any) -> Sample:
    record = {"miner_id": miner_id, "ts": iso_at(seconds), **fields}
    return Sample(index, miner_id, START_MS + int(seconds * 1000), record, msgspec.json.encode(record).decode())


class ReportingFleet:
    def __init__(self, database: Database, clock: ManualClock, options: CreationOptions | None = None) -> None:
        self.database = database
        self.clock = clock
        self.master_key = MasterKey(bytes(range(32)))
        self.box = SecretBox(self.master_key)
        self.options = options or commands_options().for_creation(self.box)
        self.trail = AuditTrail(b"k" * 32)
        self.site_id = self.add_site("North")
        self.other_id = self.add_site("South")
        self.miner_ids = [self.add_miner(self.site_id) for _ in range(4)]
        self.foreign_miner = self.add_miner(self.other_id)
        self.token, self.collector = self.add_collector(self.site_id)
        self.restart()

    def restart(self, sync: RuleSync | None = None) -> None:
        """Start new services as after a restart of the server: memory is lost. With `sync`, one of several nodes."""
        self.counters = CommandCounters()
        self.rules = RuleEvaluator(RuleActions(self.trail, self.options), GAP_SECONDS, sync)
        self.budgets = CollectorBudgets(BudgetOptions(), self.counters)
        self.ingest = TelemetryIngest(
            self.database, self.rules, self.counters, HISTORY_RECORDS, UNKNOWN_MINERS_MAX, self.budgets
        )
        self.timer = RuleTimer(self.database, self.rules, self.counters)

    def add_site(self, name: str) -> int:
        return self.database.write_now(sites.add, self.trail, name, ACTOR).id

    def add_miner(self, site_id: int, miner_id: int | None = None) -> int:
        request = MinerRequest(site_id, "miner", id=miner_id)
        return self.database.write_now(miners.add, self.trail, request, ACTOR).id

    def add_collector(self, site_id: int) -> tuple[str, CollectorCaller]:
        new = self.database.write_now(collectors.create, self.trail, self.box, site_id, None, "collector", ACTOR)
        return new.token, CollectorCaller(new.id, site_id, None)

    def add_rule(self, **changed: Any) -> Rule:
        """Add a rule that restarts a miner hotter than 80 at once, with the given changes."""
        defaults: dict[str, Any] = {
            "name": "too hot",
            "site_id": self.site_id,
            "trigger_type": "threshold",
            "trigger_metric": "temp_max",
            "trigger_operator": ">",
            "trigger_value": 80.0,
            "action_type": "restart",
        }
        request = RuleRequest(**{**defaults, **changed})
        return self.database.write_now(rules.create, self.trail, self.box, request, ACTOR)

    def add_offline_rule(self, seconds: int, **changed: Any) -> Rule:
        no_threshold = {"trigger_metric": None, "trigger_operator": None, "trigger_value": None}
        return self.add_rule(trigger_type="offline", trigger_duration_seconds=seconds, **no_threshold, **changed)

    async def report(self, *samples: Sample) -> None:
        result = await self.ingest.accept(self.site_id, Batch(list(samples), []))
        assert not result.errors

    async def heat(self, seconds: float, temp: float, miner_id: int | None = None, **fields: Any) -> list[str]:
        """Report one sample so many seconds after the start; returns the types of all commands."""
        self.clock.now_ms = START_MS + int(seconds * 1000)
        await self.report(sample(miner_id or self.miner_ids[0], seconds, temp_max=temp, **fields))
        return self.commands()

    async def tick(self, seconds: float) -> list[str]:
        self.clock.now_ms = START_MS + int(seconds * 1000)
        await self.timer.run_once()
        return self.commands()

    def commands(self) -> list[str]:
        return [row["command_type"] for row in self.rows("SELECT command_type FROM miner_commands ORDER BY id")]

    def rows(self, text: str, **parameters: Any) -> list[Any]:
        return self.database.write_now(lambda conn: conn.all(Query("test", text), **parameters))

    def history(self, miner_id: int) -> list[Any]:
        found = self.database.read_now(telemetry.read_miner, miner_id, 100, HISTORY_RECORDS)
        return [msgspec.json.decode(past.record)["n"] for past in found.history]


class ReportingClient:
    """An HTTP client of the real routes, as a collector and as operators with API keys."""

    def __init__(self, fleet: ReportingFleet, client: httpx.AsyncClient) -> None:
        self.fleet = fleet
        self._client = client
        self._keys = {
            role: fleet.database.write_now(api_keys.create, role.name, role)[1] for role in (Role.viewer, Role.operator)
        }

    async def report(self, path: str, body: Any = None, *, token: str | None = None, **sent: Any) -> httpx.Response:
        """Send as the collector; `content` and `headers` are passed on."""
        headers = {"authorization": f"Bearer {token or self.fleet.token}", **sent.pop("headers", {})}
        if body is not None:
            sent["json"] = body
        return await self._client.post(f"/api/edge/v1{path}", headers=headers, **sent)

    async def admin(
        self, method: str, path: str, body: Any = None, role: Role = Role.operator, **sent: Any
    ) -> httpx.Response:
        headers = {"authorization": f"Bearer {self._keys[role]}"}
        if body is not None:
            sent["json"] = body
        return await self._client.request(method, f"/api/edge/v1/admin{path}", headers=headers, **sent)


async def connect(fleet: ReportingFleet) -> ReportingClient:
    database = fleet.database
    tokens = new_device_tokens(database, SigningKeys(database, fleet.master_key))
    await tokens.start()
    routes = [
        *TelemetryRoutes(database, fleet.ingest, BODY_BYTES_MAX).routes(),
        *SafetyRoutes(database, fleet.counters, fleet.budgets, UNKNOWN_MINERS_MAX, BODY_BYTES_MAX).routes(),
        *RuleRoutes(database, fleet.trail, fleet.box).routes(),
    ]
    app = new_application(routes, AccessControl(database, tokens, CollectorTokens(database)), RESPONSE_FORMAT)
    return ReportingClient(
        fleet, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://restante.test")
    )


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> ReportingFleet:
    return ReportingFleet(database, clock)


@pytest.fixture
async def client(fleet: ReportingFleet) -> ReportingClient:
    return await connect(fleet)
