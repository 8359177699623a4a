"""A small world for what collectors report: two sites with miners, a collector, and the routes behind the gate."""

from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec

from restante.commands import collectors, miners, rules, sites, telemetry
from restante.commands.audit import AuditTrail
from restante.commands.collectors import SecretBox
from restante.commands.creation import CreationOptions
from restante.commands.ingest import Ingest
from restante.commands.miners import MinerWish
from restante.commands.routes_rules import RuleRoutes
from restante.commands.routes_safety import SafetyRoutes
from restante.commands.routes_telemetry import TelemetryRoutes
from restante.commands.rule_evaluation import RuleEvaluation
from restante.commands.rule_firing import Firing
from restante.commands.rule_hearing import OthersHeard
from restante.commands.rule_timer import RuleTimer
from restante.commands.rules import Rule, RuleWish
from restante.commands.telemetry_records import Batch, Sample
from restante.commands.totals import CommandTotals
from restante.commands.wire import SHAPE
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import CollectorCaller, Role
from restante.identity.collector_tokens import CollectorTokens
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import Gate
from restante.web.application import build_application
from tests.conftest import START_MS, ManualClock

KEEP = 5
GAP_SECONDS = 300
BODY_BYTES_MAX = 64 * 1024
ACTOR = "tests"


def iso_at(seconds: float) -> str:
    """The moment so many seconds after the start of the tests' clock, as collectors write it."""
    return datetime.fromtimestamp(START_MS / 1000 + seconds, UTC).isoformat().replace("+00:00", "Z")


def sample(miner_id: int, seconds: float, place: int = 0, **fields: Any) -> Sample:
    record = {"miner_id": miner_id, "ts": iso_at(seconds), **fields}
    return Sample(place, miner_id, START_MS + int(seconds * 1000), record, msgspec.json.encode(record).decode())


class World:
    def __init__(self, database: Database, clock: ManualClock, options: CreationOptions | None = None) -> None:
        self.database = database
        self.clock = clock
        self.options = options or CreationOptions()
        self.master_key = MasterKey(bytes(range(32)))
        self.trail = AuditTrail(b"k" * 32)
        self.site_id = self.add_site("North")
        self.other_id = self.add_site("South")
        self.miner_ids = [self.add_miner(self.site_id) for _ in range(4)]
        self.foreign_miner = self.add_miner(self.other_id)
        self.token, self.collector = self.add_collector(self.site_id)
        self.restart()

    def restart(self, others: OthersHeard | None = None) -> None:
        """As if the server had been started anew: what was in memory is gone. With `others`, one of several nodes."""
        self.totals = CommandTotals()
        self.rules = RuleEvaluation(Firing(self.trail, self.options), GAP_SECONDS, others)
        self.ingest = Ingest(self.database, self.rules, self.totals, KEEP)
        self.timer = RuleTimer(self.database, self.rules, self.totals)

    def add_site(self, name: str) -> int:
        return self.database.write_now(sites.add, self.trail, name, ACTOR).id

    def add_miner(self, site_id: int) -> int:
        return self.database.write_now(miners.add, self.trail, MinerWish(site_id, "miner"), ACTOR).id

    def add_collector(self, site_id: int) -> tuple[str, CollectorCaller]:
        box = SecretBox(self.master_key)
        new = self.database.write_now(collectors.create, self.trail, box, site_id, None, "collector", ACTOR)
        return new.token, CollectorCaller(new.id, site_id, None)

    def add_rule(self, **wish: Any) -> Rule:
        """A rule that restarts a miner hotter than 80 at once, unless the wish says otherwise."""
        usual: dict[str, Any] = {
            "name": "too hot",
            "site_id": self.site_id,
            "trigger_type": "threshold",
            "trigger_metric": "temp_max",
            "trigger_operator": ">",
            "trigger_value": 80.0,
            "action_type": "restart",
        }
        return self.database.write_now(rules.create, self.trail, RuleWish(**{**usual, **wish}), ACTOR)

    def add_offline_rule(self, seconds: int, **wish: Any) -> Rule:
        nothing = {"trigger_metric": None, "trigger_operator": None, "trigger_value": None}
        return self.add_rule(trigger_type="offline", trigger_duration_seconds=seconds, **nothing, **wish)

    async def report(self, *samples: Sample) -> None:
        taken = await self.ingest.take(self.site_id, Batch(list(samples), []))
        assert not taken.errors

    async def heat(self, seconds: float, temp: float, miner_id: int | None = None, **fields: Any) -> list[str]:
        """A sample made and reported so many seconds after the start; which commands there are then."""
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
        return self.database.write_now(lambda conn: conn.all(Query("asked", text), **parameters))

    def history(self, miner_id: int) -> list[Any]:
        found = self.database.read_now(telemetry.of_miner, miner_id, 100, KEEP)
        return [msgspec.json.decode(past.record)["n"] for past in found.history]


class Site:
    """The routes behind the real gate, for a collector and for people with keys."""

    def __init__(self, world: World, client: httpx.AsyncClient) -> None:
        self.world = world
        self._client = client
        self._keys = {
            role: world.database.write_now(api_keys.create, role.name, role)[1] for role in (Role.viewer, Role.operator)
        }

    async def report(self, path: str, body: Any = None, *, token: str | None = None, **sent: Any) -> httpx.Response:
        """As the collector; `content` and `headers` go as they are."""
        headers = {"authorization": f"Bearer {token or self.world.token}", **sent.pop("headers", {})}
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


async def open_site(world: World) -> Site:
    database = world.database
    tokens = DeviceTokens(database, SigningKeys(database, world.master_key), OutsideIssuers())
    await tokens.start()
    routes = [
        *TelemetryRoutes(database, world.ingest, BODY_BYTES_MAX).routes(),
        *SafetyRoutes(database, BODY_BYTES_MAX).routes(),
        *RuleRoutes(database, world.trail).routes(),
    ]
    app = build_application(routes, Gate(database, tokens, CollectorTokens(database)), SHAPE)
    return Site(world, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://restante.test"))
