"""Two sites with zones and miners for tests of operator functions, and the admin routes behind access control."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.audit.audit_verify import ChainVerdict, LiveVerification
from restante.commands.audit.heads_recorder import HeadsOptions, HeadsRecorder
from restante.commands.audit.routes import AdminAuditRoutes
from restante.commands.dispatch.claims import ClaimOptions, ClaimRequest, claim
from restante.commands.lifecycle import creation, listing
from restante.commands.lifecycle.creation import CommandRequest, Created, CreationOptions
from restante.commands.lifecycle.listing import CommandDetail
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.commands.lifecycle.routes import AdminCommandRoutes
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.sites import collectors, miners, sites
from restante.commands.sites.collectors import NewCollector, SecretBox
from restante.commands.sites.miners import MinerRequest
from restante.commands.sites.routes_collectors import AdminCollectorRoutes
from restante.commands.sites.routes_inventory import InventoryRoutes
from restante.commands.sites.routes_sites import AdminSiteRoutes
from restante.commands.sites.routes_tags import AdminTagRoutes
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.presence import Presence
from restante.identity import api_keys
from restante.identity.callers import CollectorCaller, Role
from restante.identity.master_key import MasterKey
from restante.identity.people import sessions, users
from restante.identity.signing_keys import SigningKeys
from restante.web.access import SESSION_COOKIE, AccessControl
from restante.web.routes import Route
from tests import defaults
from tests.commands.default_options import commands_options
from tests.conftest import ManualClock
from tests.defaults import new_application, new_device_tokens
from tests.identity.people_and_devices import SESSION_SECONDS, add_user

MASTER_KEY = MasterKey(bytes(range(32)))
OVERLAP_SECONDS = 3600
ADMIN = "/api/edge/v1/admin"


class MinerFleet:
    """Two sites, one with a second zone, and four miners."""

    def __init__(self, database: Database, clock: ManualClock, options: CreationOptions | None = None) -> None:
        self.database = database
        self.clock = clock
        self.options = options or creation_options()
        self.trail = AuditTrail(MASTER_KEY.derive_key("audit"))
        self.box = SecretBox(MASTER_KEY)
        self.commit_events: list[object] = []
        database.on_commit(self.commit_events.extend)
        site = self.write(sites.add, "North", "tests")
        self.site_id, self.default_zone = site.id, site.default_zone_id
        self.east = self.write(sites.add_zone, self.site_id, "east", "tests").id
        self.other_site = self.write(sites.add, "South", "tests").id
        self.miner = self.add_miner(self.site_id)
        self.second_miner = self.add_miner(self.site_id)
        self.east_miner = self.add_miner(self.site_id, self.east)
        self.other_site_miner = self.add_miner(self.other_site)
        self.commit_events.clear()

    def write(self, work: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a function that takes the trail after the connection."""
        return self.database.write_now(work, self.trail, *args, **kwargs)

    def add_miner(self, site_id: int, zone_id: int | None = None) -> int:
        return int(self.write(miners.add, MinerRequest(site_id, "miner", zone_id), "tests").id)

    def add_collector(self, name: str = "collector", zone_id: int | None = None) -> NewCollector:
        created: NewCollector = self.write(collectors.create, self.box, self.site_id, zone_id, name, "tests")
        return created

    def command_request(self, **changed: Any) -> CommandRequest:
        defaults = {"site_id": self.site_id, "command_type": "HASHING_ENABLE", "miner_id": self.miner}
        return CommandRequest(**{**defaults, **changed})

    def create(self, actor: str = "maker", **changed: Any) -> Created:
        created: Created = self.write(creation.create, self.command_request(**changed), actor, self.options)
        return created

    @property
    def claim_options(self) -> ClaimOptions:
        return defaults.claim_options(rates=self.options.rate_rules, is_one_lease_per_miner=False)

    def claim(self, collector: NewCollector, limit: int = 10) -> list[str]:
        """Return the ids of the commands that the collector claims."""
        caller = CollectorCaller(collector.id, self.site_id, None)
        claimed = self.database.write_now(claim, self.trail, self.claim_options, ClaimRequest(caller, None, limit))
        return [command.command_id for command in claimed.commands]

    def show(self, command_id: str) -> CommandDetail:
        return self.database.read_now(listing.show, command_id)

    def events(self, command_id: str) -> list[tuple[str, str, str | None, str | None]]:
        """Return actor, event, old state and new state of each row in the command's history."""
        history = self.show(command_id).history
        return [(row.actor, row.event, row.from_state, row.to_state) for row in history]

    def params(self, command_id: str) -> Any:
        return msgspec.json.decode(self.show(command_id).params)

    def query(self, text: str, **parameters: Any) -> list[Any]:
        return self.database.write_now(lambda conn: conn.all(Query("test", text), **parameters))

    def count(self, table: str = "miner_commands") -> int:
        return int(self.query(f"SELECT COUNT(*) AS count FROM {table}")[0]["count"])

    def verdict(self, verification: LiveVerification | None = None) -> ChainVerdict:
        found = verification or LiveVerification(self.trail.mac)
        while self.database.read_now(found.step):
            pass
        return found.verdict

    def changed_sites(self) -> list[int]:
        return [event.site_id for event in self.commit_events if isinstance(event, CommandsChanged)]


def creation_options(**changed: Any) -> CreationOptions:
    return replace(commands_options().for_creation(SecretBox(MASTER_KEY)), **changed)


def now_of(conn: Connection) -> int:
    return conn.now_ms


class OperatorApi:
    """Calls the admin routes through real access control, with an API key or a session of any role."""

    def __init__(self, fleet: MinerFleet, transport: httpx.ASGITransport) -> None:
        self.fleet = fleet
        self._transport = transport
        self._keys = {role: self.new_key(role.name, role) for role in Role}

    def new_key(self, name: str, role: Role) -> str:
        return self.fleet.database.write_now(api_keys.create, name, role)[1]

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

    async def as_user(self, role: Role, method: str, path: str, body: Any = None) -> httpx.Response:
        email = f"{role.name}@example.com"
        known = self.fleet.database.read_now(users.find_by_email, email)
        user_id = add_user(self.fleet.database, email, role) if known is None else known.id
        token = self.fleet.database.write_now(sessions.start, user_id, SESSION_SECONDS)
        async with self._client(cookies={SESSION_COOKIE: token}) as client:
            return await client.request(method, ADMIN + path, json=body)

    def command(self, **changed: Any) -> dict[str, Any]:
        """A request for a command, as JSON."""
        defaults = {"site_id": self.fleet.site_id, "command_type": "HASHING_ENABLE", "miner_id": self.fleet.miner}
        return {name: value for name, value in {**defaults, **changed}.items() if value is not ...}

    async def create(self, role: Role = Role.operator, **changed: Any) -> httpx.Response:
        return await self.call("POST", "/commands", self.command(**changed), role=role)

    def _client(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=self._transport, base_url="http://restante.test", **options)


async def open_operator_api(fleet: MinerFleet) -> OperatorApi:
    database = fleet.database
    tokens = new_device_tokens(database, SigningKeys(database, MASTER_KEY))
    await tokens.start()
    application = new_application(operator_routes(fleet), AccessControl(database, tokens), RESPONSE_FORMAT)
    return OperatorApi(fleet, httpx.ASGITransport(application))


def operator_routes(fleet: MinerFleet) -> list[Route]:
    database, trail = fleet.database, fleet.trail
    heads = HeadsOptions(interval_seconds=30, folder=Path("absent"), anchor=None, anchor_seconds=60)
    return [
        *AdminSiteRoutes(database, trail).routes(),
        *InventoryRoutes(database, trail).routes(),
        *AdminCollectorRoutes(
            database, trail, fleet.box, Presence(database), secret_overlap_seconds=OVERLAP_SECONDS
        ).routes(),
        *AdminTagRoutes(database, trail).routes(),
        *AdminCommandRoutes(database, trail, fleet.options, fleet.claim_options).routes(),
        *AdminAuditRoutes(database, trail, HeadsRecorder(database, trail, heads)).routes(),
    ]


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]


def field_of(response: httpx.Response) -> str:
    """Return the field that a 400 response names."""
    assert error_of(response) == (400, "INVALID_REQUEST"), response.text
    return str(response.json()["field"])
