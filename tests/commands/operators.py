"""A small world for what operators do: two sites with zones and miners, and the routes behind the gate."""

from typing import Any

import httpx
import msgspec

from restante.commands import collectors, creation, listing, miners, sites
from restante.commands.audit import AuditTrail
from restante.commands.audit_verify import LiveVerification, Verdict
from restante.commands.claims import Claim, ClaimOptions, claim
from restante.commands.collectors import NewCollector, SecretBox
from restante.commands.creation import CommandWish, Created, CreationOptions
from restante.commands.listing import CommandDetail
from restante.commands.miners import MinerWish
from restante.commands.queue import CommandsChanged
from restante.commands.routes import admin_routes
from restante.commands.wire import SHAPE
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import api_keys, sessions
from restante.identity.callers import CollectorCaller, Role
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.web.access import SESSION_COOKIE, Gate
from restante.web.application import build_application
from tests.conftest import ManualClock
from tests.identity.population import add_user

MASTER_KEY = MasterKey(bytes(range(32)))
OVERLAP_SECONDS = 3600
ADMIN = "/api/edge/v1/admin"


class World:
    def __init__(self, database: Database, clock: ManualClock, options: CreationOptions | None = None) -> None:
        self.database = database
        self.clock = clock
        self.options = options or CreationOptions()
        self.trail = AuditTrail(MASTER_KEY.derived("audit"))
        self.box = SecretBox(MASTER_KEY)
        self.announced: list[object] = []
        database.on_commit(self.announced.extend)
        site = self.write(sites.add, "North", "tests")
        self.site_id, self.default_zone = site.id, site.default_zone_id
        self.east = self.write(sites.add_zone, self.site_id, "east", "tests").id
        self.other_site = self.write(sites.add, "South", "tests").id
        self.miner = self.add_miner(self.site_id)
        self.second_miner = self.add_miner(self.site_id)
        self.east_miner = self.add_miner(self.site_id, self.east)
        self.foreign_miner = self.add_miner(self.other_site)
        self.announced.clear()

    def write(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a function that takes the trail after the connection."""
        return self.database.write_now(work, self.trail, *args, **kwargs)

    def add_miner(self, site_id: int, zone_id: int | None = None) -> int:
        return int(self.write(miners.add, MinerWish(site_id, "miner", zone_id), "tests").id)

    def add_collector(self, name: str = "collector", zone_id: int | None = None) -> NewCollector:
        made: NewCollector = self.write(collectors.create, self.box, self.site_id, zone_id, name, "tests")
        return made

    def wish(self, **changed: Any) -> CommandWish:
        usual = {"site_id": self.site_id, "command_type": "HASHING_ENABLE", "miner_id": self.miner}
        return CommandWish(**{**usual, **changed})

    def create(self, actor: str = "maker", **changed: Any) -> Created:
        made: Created = self.write(creation.create, self.wish(**changed), actor, self.options)
        return made

    def claim(self, collector: NewCollector, limit: int = 10) -> list[str]:
        """The ids of the commands that the collector is handed."""
        caller = CollectorCaller(collector.id, self.site_id, None)
        rates = ClaimOptions(rates=self.options.rate_rules)
        claimed = self.database.write_now(claim, self.trail, rates, Claim(caller, None, limit))
        return [command.command_id for command in claimed.commands]

    def show(self, command_id: str) -> CommandDetail:
        return self.database.read_now(listing.show, command_id)

    def events(self, command_id: str) -> list[tuple[str, str, str | None, str | None]]:
        """Who did what to a command, from which state to which."""
        history = self.show(command_id).history
        return [(row.actor, row.event, row.from_state, row.to_state) for row in history]

    def params(self, command_id: str) -> Any:
        return msgspec.json.decode(self.show(command_id).params)

    def query(self, text: str, **parameters: Any) -> list[Any]:
        return self.database.write_now(lambda conn: conn.all(Query("asked", text), **parameters))

    def count(self, table: str = "miner_commands") -> int:
        return int(self.query(f"SELECT COUNT(*) AS count FROM {table}")[0]["count"])

    def verdict(self, verification: LiveVerification | None = None) -> Verdict:
        found = verification or LiveVerification(self.trail.mac)
        while self.database.read_now(found.step):
            pass
        return found.verdict

    def sites_told(self) -> list[int]:
        return [event.site_id for event in self.announced if isinstance(event, CommandsChanged)]


def now_of(conn: Connection) -> int:
    return conn.now_ms


class Office:
    """The routes behind the real gate, for holders of keys and people of every role."""

    def __init__(self, world: World, transport: httpx.ASGITransport) -> None:
        self.world = world
        self._transport = transport
        self._keys = {role: self.new_key(role.name, role) for role in Role}

    def new_key(self, name: str, role: Role) -> str:
        return self.world.database.write_now(api_keys.create, name, role)[1]

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: Role = Role.admin,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        sent = {"authorization": f"Bearer {key or self._keys[role]}", **(headers or {})}
        async with self._client() as client:
            if content is not None:
                sent["content-type"] = "application/json"
                return await client.request(method, ADMIN + path, headers=sent, content=content)
            return await client.request(method, ADMIN + path, headers=sent, json=body)

    async def as_person(self, role: Role, method: str, path: str, body: Any = None) -> httpx.Response:
        email = f"{role.name}@example.com"
        user_id = add_user(self.world.database, email, role)
        token = self.world.database.write_now(sessions.start, user_id)
        async with self._client(cookies={SESSION_COOKIE: token}) as client:
            return await client.request(method, ADMIN + path, json=body)

    def command(self, **changed: Any) -> dict[str, Any]:
        """A request for a command, as JSON."""
        usual = {"site_id": self.world.site_id, "command_type": "HASHING_ENABLE", "miner_id": self.world.miner}
        return {name: value for name, value in {**usual, **changed}.items() if value is not ...}

    async def create(self, role: Role = Role.operator, **changed: Any) -> httpx.Response:
        return await self.call("POST", "/commands", self.command(**changed), role=role)

    def _client(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=self._transport, base_url="http://restante.test", **options)


async def open_office(world: World) -> Office:
    database = world.database
    tokens = DeviceTokens(database, SigningKeys(database, MASTER_KEY), OutsideIssuers())
    await tokens.start()
    routes = admin_routes(database, world.trail, world.box, world.options, secret_overlap_seconds=OVERLAP_SECONDS)
    return Office(world, httpx.ASGITransport(build_application(routes, Gate(database, tokens), SHAPE)))


def error_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]


def field_of(answer: httpx.Response) -> str:
    """The field that a 400 names."""
    assert error_of(answer) == (400, "INVALID_REQUEST"), answer.text
    return str(answer.json()["field"])
