"""A field of sites for tests: with zones, miners and collectors, commands for them, and the whole protocol on top.

`Field` calls the domain in transactions of its own; `FieldServer` answers on two real sockets, one behind the fast lane
and one behind uvicorn's own protocol, with the same application behind both.
"""

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import msgspec
import uvicorn
import uvloop

from restante.commands import collectors, creation, miners, sites
from restante.commands.ack_body import AckBody, ReadAck, read_ack
from restante.commands.acks import AckOptions, Taken, acknowledge
from restante.commands.claims import Claim, Claimed, ClaimOptions, claim
from restante.commands.creation import CommandWish, Created
from restante.commands.miners import MinerWish
from restante.commands.parts import CommandsOptions, CommandsParts
from restante.commands.wire import SHAPE
from restante.core.errors import RestanteError
from restante.database.connection import Row
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity.callers import CollectorCaller
from restante.identity.collector_tokens import CollectorTokens
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.server.deadlines import Deadlines
from restante.server.fast_lane import LaneShared, fast_lane_class
from restante.server.post_forms import PostForms
from restante.server.request_forms import RequestForms
from restante.web.access import Gate
from restante.web.application import build_application
from tests.server.serving import Wire

T = TypeVar("T")

ACTOR = "tests"
PATIENCE_SECONDS = 10.0

_numbers = itertools.count(1)


class Hired(NamedTuple):
    """A collector with everything it was told once."""

    caller: CollectorCaller
    token: str
    secret: str


class Field:
    def __init__(self, database: Database, options: CommandsOptions | None = None) -> None:
        self.database = database
        self.options = options or CommandsOptions()
        self.master_key = MasterKey(bytes(range(32)))
        self.tokens = CollectorTokens(database)
        self.parts = CommandsParts(database, self.master_key, self.tokens, self.options)
        self.trail = self.parts.trail

    def add_site(self) -> int:
        return self.database.write_now(sites.add, self.trail, self._name("site"), ACTOR).id

    def add_zone(self, site_id: int) -> int:
        return self.database.write_now(sites.add_zone, self.trail, site_id, self._name("zone"), ACTOR).id

    def add_miner(self, site_id: int, zone_id: int | None = None) -> int:
        wish = MinerWish(site_id, self._name("miner"), zone_id=zone_id)
        return self.database.write_now(miners.add, self.trail, wish, ACTOR).id

    def hire(self, site_id: int, zone_id: int | None = None) -> Hired:
        new = self.database.write_now(
            collectors.create, self.trail, self.parts.box, site_id, zone_id, self._name("collector"), ACTOR
        )
        return Hired(CollectorCaller(new.id, site_id, zone_id), new.token, new.hmac_secret)

    def send(self, site_id: int, miner_id: int, command_type: str = "POWER_MODE", **wish: Any) -> Created:
        """A command, of a type whose rate limit is high, unless the wish says otherwise."""
        if command_type == "POWER_MODE":
            wish.setdefault("params", b'{"mode":"LOW"}')
        wanted = CommandWish(site_id=site_id, miner_id=miner_id, command_type=command_type, **wish)
        return self.database.write_now(creation.create, self.trail, wanted, ACTOR, self.options.for_creation())

    def claim(self, caller: CollectorCaller, limit: int = 10, zone_id: int | None = None) -> Claimed:
        options = ClaimOptions(self.options.lease_seconds, self.options.rates, self.options.is_signed)
        return self.database.write_now(claim, self.trail, options, Claim(caller, zone_id, limit))

    def ack(self, caller: CollectorCaller, command_id: str, status: str, **said: Any) -> Taken | RestanteError:
        return self.database.write_now(
            acknowledge, self.trail, self.ack_options(), caller, command_id, read(status, **said)
        )

    def ack_options(self) -> AckOptions:
        return AckOptions(self.parts.box, self.options.is_signed and self.options.is_ack_nonce_required)

    def command(self, command_id: str) -> Row:
        query = Query("command", "SELECT * FROM miner_commands WHERE command_id = :command_id")
        row = self.database.read_now(lambda conn: conn.one(query, command_id=command_id))
        assert row is not None
        return row

    def audit(self, site_id: int) -> list[tuple[str, str | None, str | None, str | None]]:
        """Event, command, from, to of every row of the site's chain."""
        query = Query(
            "audit",
            "SELECT event, command_id, from_state, to_state FROM command_audit WHERE chain = :chain ORDER BY n",
        )
        rows = self.database.read_now(lambda conn: conn.all(query, chain=site_id))
        return [(row["event"], row["command_id"], row["from_state"], row["to_state"]) for row in rows]

    def gate(self) -> Gate:
        device_tokens = DeviceTokens(self.database, SigningKeys(self.database, self.master_key), OutsideIssuers(()))
        return Gate(self.database, device_tokens, self.tokens)

    def application(self) -> Any:
        return build_application(self.parts.routes(), self.gate(), SHAPE)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the parts hear what commits announce, in the loop."""

        def pass_on(announced: list[object]) -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self.hear, announced)

        self.database.on_commit(pass_on)

    def hear(self, announced: list[object]) -> None:
        for event in announced:
            self.parts.hear(event)

    def _name(self, kind: str) -> str:
        return f"{kind} {next(_numbers)}"


def read(status: str, **said: Any) -> ReadAck:
    """An ACK as if it had come over the wire."""
    raw = msgspec.json.encode({"status": status, **said})
    return read_ack(msgspec.json.decode(raw, type=AckBody), raw)


class FieldServer:
    """The field's protocol on two sockets, in a thread with a loop of its own."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.lane = LaneShared(
            forms=RequestForms(field.parts.hot()),
            shape=SHAPE,
            deadlines=Deadlines(time.monotonic()),
            posts=PostForms(field.parts.hot_posts()),
            body_seconds=0.3,
        )
        self._fast, self._plain = _listening(), _listening()
        self.fast_port: int = self._fast.getsockname()[1]
        self.plain_port: int = self._plain.getsockname()[1]
        self._servers: list[uvicorn.Server] = []
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="field", daemon=True)
        self._thread.start()
        assert self._is_ready.wait(PATIENCE_SECONDS)

    def connect(self, port: int | None = None) -> Wire:
        return Wire(port or self.fast_port)

    def remember(self, hired: Hired) -> None:
        """Verify a collector's token, so that the fast lane knows it."""
        self.wait_for(self.field.tokens.verify(hired.token))

    def call(self, work: Callable[..., T], *args: Any) -> T:
        async def there() -> T:
            return work(*args)

        return self.wait_for(there())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)

    def until(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.call(is_so):
            assert time.monotonic() < end, "it never came to be so"

    def close(self) -> None:
        self.call(self.field.parts.close)
        for server in self._servers:
            server.should_exit = True
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.field.listen(self.loop)
        ticking = asyncio.create_task(self._tick())
        application = self.field.application()
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
        self._servers = [fast, plain]
        serving = asyncio.gather(fast.serve([self._fast]), plain.serve([self._plain]))
        while not (fast.started and plain.started):
            await asyncio.sleep(0.002)
        self._is_ready.set()
        await serving
        ticking.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(0.01)
            self.lane.deadlines.tick(time.monotonic())
            self.field.parts.tick(time.time())


def _listening() -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    listening.setblocking(False)
    return listening
