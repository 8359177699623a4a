"""The commands component over a test database, with helpers that add sites, zones, miners, collectors and commands.

`CommandsHarness` calls domain functions, each in its own transaction. `CommandsServer` serves the same component on two
real sockets: one behind the fast lane, one behind uvicorn's own protocol.
"""

import asyncio
import itertools
import time
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import uvicorn

from restante.commands.acks.ack_schema import AckBody, ParsedAck, parse_ack
from restante.commands.acks.acks import AckOptions, AckResult, accept_ack
from restante.commands.component import CommandsComponent, CommandsOptions
from restante.commands.dispatch.claims import ClaimRequest, ClaimResult, claim
from restante.commands.dispatch.ready_commands import ReadyTypes
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest, Created
from restante.commands.response_format import RESPONSE_FORMAT
from restante.commands.sites import collectors, miners, sites
from restante.commands.sites.miners import MinerRequest
from restante.core.errors import RestanteError
from restante.database.connection import Row
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity.callers import CollectorCaller
from restante.identity.clients.collector_tokens import CollectorTokens
from restante.identity.jwt.issuers import ExternalIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.server.http.deadlines import Deadlines
from restante.server.http.fast_lane import FastLaneState, fast_lane_class
from restante.server.http.post_templates import PostTemplates
from restante.server.http.request_templates import RequestTemplates
from restante.web.access import AccessControl
from tests.commands.default_options import commands_options
from tests.components import handle
from tests.defaults import new_application, new_device_tokens
from tests.server.live_server import TwoLaneServer

ACTOR = "tests"

_numbers = itertools.count(1)


class Collector(NamedTuple):
    """A collector with its token and HMAC secret, which the server shows once."""

    caller: CollectorCaller
    token: str
    secret: str


class CommandsHarness:
    def __init__(self, database: Database, options: CommandsOptions | None = None) -> None:
        self.database = database
        self.options = options or commands_options()
        self.master_key = MasterKey(bytes(range(32)))
        self.tokens = CollectorTokens(database)
        self.component = CommandsComponent(database, self.master_key, self.tokens, self.options)
        self.trail = self.component.trail
        self._ready_types = ReadyTypes()
        self.creation_options = self.options.for_creation(self.component.box)

    def add_site(self) -> int:
        return self.database.write_now(sites.add, self.trail, self._name("site"), ACTOR).id

    def add_zone(self, site_id: int) -> int:
        return self.database.write_now(sites.add_zone, self.trail, site_id, self._name("zone"), ACTOR).id

    def add_miner(self, site_id: int, zone_id: int | None = None) -> int:
        request = MinerRequest(site_id, self._name("miner"), zone_id=zone_id)
        return self.database.write_now(miners.add, self.trail, request, ACTOR).id

    def add_collector(self, site_id: int, zone_id: int | None = None) -> Collector:
        new = self.database.write_now(
            collectors.create, self.trail, self.component.box, site_id, zone_id, self._name("collector"), ACTOR
        )
        return Collector(CollectorCaller(new.id, site_id, zone_id), new.token, new.hmac_secret)

    def add_command(
        self, site_id: int, miner_id: int | None, command_type: str = "POWER_MODE", **fields: Any
    ) -> Created:
        """Create a command. The default type has a high rate limit."""
        if command_type == "POWER_MODE":
            fields.setdefault("params", b'{"mode":"LOW"}')
        request = CommandRequest(site_id=site_id, miner_id=miner_id, command_type=command_type, **fields)
        return self.database.write_now(creation.create, self.trail, request, ACTOR, self.creation_options)

    def claim(self, caller: CollectorCaller, limit: int = 10, zone_id: int | None = None) -> ClaimResult:
        return self.database.write_now(
            claim, self.trail, self.options.for_claims(), ClaimRequest(caller, zone_id, limit), self._ready_types
        )

    def ack(self, caller: CollectorCaller, command_id: str, status: str, **fields: Any) -> AckResult | RestanteError:
        return self.database.write_now(
            accept_ack, self.trail, self.ack_options(), caller, command_id, ack_of(status, **fields)
        )

    def ack_options(self) -> AckOptions:
        return self.options.for_acks(self.component.box)

    def command(self, command_id: str) -> Row:
        query = Query("command", "SELECT * FROM miner_commands WHERE command_id = :command_id")
        row = self.database.read_now(lambda conn: conn.one(query, command_id=command_id))
        assert row is not None
        return row

    def audit(self, site_id: int) -> list[tuple[str, str | None, str | None, str | None]]:
        """Return event, command id, old state and new state of every row in the site's audit chain."""
        query = Query(
            "audit",
            "SELECT event, command_id, from_state, to_state FROM command_audit WHERE chain = :chain ORDER BY n",
        )
        rows = self.database.read_now(lambda conn: conn.all(query, chain=site_id))
        return [(row["event"], row["command_id"], row["from_state"], row["to_state"]) for row in rows]

    def access_control(self) -> AccessControl:
        device_tokens = new_device_tokens(
            self.database, SigningKeys(self.database, self.master_key), ExternalIssuers(())
        )
        return AccessControl(self.database, device_tokens, self.tokens)

    def application(self) -> Any:
        return new_application(self.component.routes(), self.access_control(), RESPONSE_FORMAT)

    def subscribe(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass commit events to the component, in the event loop."""

        def schedule(events: list[object]) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self.handle_commit_events, events)

        self.database.on_commit(schedule)

    def handle_commit_events(self, events: list[object]) -> None:
        handle(self.component, *events)

    def _name(self, kind: str) -> str:
        return f"{kind} {next(_numbers)}"


def ack_of(status: str, **fields: Any) -> ParsedAck:
    """Encode an ACK and parse it as the server does."""
    raw = msgspec.json.encode({"status": status, **fields})
    return parse_ack(msgspec.json.decode(raw, type=AckBody), raw)


class CommandsServer(TwoLaneServer):
    """Serves the harness's component on two sockets, in a thread with its own event loop."""

    def __init__(self, harness: CommandsHarness) -> None:
        super().__init__()
        self.harness = harness
        self.lane = FastLaneState(
            templates=RequestTemplates(harness.component.fast_handlers()),
            response_format=RESPONSE_FORMAT,
            deadlines=Deadlines(time.monotonic()),
            post_templates=PostTemplates(harness.component.fast_posts()),
            connections_max=20_000,
            header_seconds=10.0,
            body_seconds=0.3,
            keep_alive_seconds=75.0,
        )
        self.start()

    def cache_token(self, collector: Collector) -> None:
        """Verify a collector's token, so that the fast lane finds it in the cache."""
        self.wait_for(self.harness.tokens.verify(collector.token))

    def close(self) -> None:
        self.call(self.harness.component.close)
        self.stop()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.harness.subscribe(self.loop)
        ticking = asyncio.create_task(self._tick())
        application = self.harness.application()
        options: dict[str, Any] = {
            "loop": "uvloop",
            "ws": "none",
            "lifespan": "off",
            "log_config": None,
            "server_header": False,
            "access_log": False,
        }
        fast = uvicorn.Server(uvicorn.Config(application, http=fast_lane_class(self.lane), **options))
        plain = uvicorn.Server(uvicorn.Config(application, http="httptools", **options))
        await self._serve_both(fast, plain)
        ticking.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            self.lane.deadlines.tick(time.monotonic())
            self.harness.component.tick(time.time())
