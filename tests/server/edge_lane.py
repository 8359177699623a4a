"""A served node with a collector that is known to the fast lane, for the tests that send ACKs byte by byte."""

from pathlib import Path
from typing import Any

import msgspec

from restante.commands import collectors, creation, miners, sites
from restante.commands.claims import Claim, ClaimOptions, claim
from restante.commands.creation import CommandWish
from restante.commands.miners import MinerWish
from restante.commands.rate_windows import RateLimit, RateRules
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity.callers import CollectorCaller
from restante.server.options import commands_options
from tests.server.serving import Served, Wire, WireAnswer

BASE = b"/api/edge/v1/commands/"
ACTOR = "tests"
# More than any of these tests hands out.
NO_LIMITS = RateRules({}, RateLimit(1_000_000, 60))

_STATE = Query("state", "SELECT status FROM miner_commands WHERE command_id = :command_id")
_ACKS = Query(
    "acks",
    "SELECT count(*) AS count FROM command_audit WHERE command_id = :command_id AND event = 'command.succeeded'",
)


class EdgeLane:
    """A server with one site, a miner and a collector."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.served = Served(folder, **{"command_rate_limits": NO_LIMITS, **settings})
        self.node = self.served.node
        self._options = commands_options(self.node.settings)
        self.node.database.write_now(self._furnish)
        self.know()

    def _furnish(self, conn: Connection) -> None:
        trail, box = self.node.commands.trail, self.node.commands.box
        self.site_id = sites.add(conn, trail, "site", ACTOR).id
        self.miner_id = miners.add(conn, trail, MinerWish(self.site_id, "miner"), ACTOR).id
        hired = collectors.create(conn, trail, box, self.site_id, None, "collector", ACTOR)
        self.token = hired.token.encode()
        self.caller = CollectorCaller(hired.id, self.site_id, None)

    def know(self) -> None:
        """Have the fast lane know the collector's token."""
        self.served.wait_for(self.node.collector_tokens.verify(self.token.decode()))

    def create(self, command_type: str = "HASHING_ENABLE") -> str:
        wish = CommandWish(site_id=self.site_id, miner_id=self.miner_id, command_type=command_type)
        create, trail = creation.create, self.node.commands.trail
        made = self.node.database.write_now(create, trail, wish, ACTOR, self._options.for_creation())
        # What the commit announced is in the loop's queue: whatever is called behind it finds it heard.
        self.served.call(lambda: None)
        return made.command_id

    def lease(self) -> bytes:
        """The id of a command that the collector holds."""
        command_id = self.create()
        wanted = Claim(self.caller, None, 50)
        self.node.database.write_now(claim, self.node.commands.trail, ClaimOptions(rates=NO_LIMITS), wanted)
        return command_id.encode()

    def state(self, command_id: bytes) -> str:
        row = self.node.database.read_now(lambda conn: conn.one(_STATE, command_id=command_id.decode()))
        assert row is not None
        return str(row["status"])

    def times_succeeded(self, command_id: bytes) -> int:
        row = self.node.database.read_now(lambda conn: conn.one(_ACKS, command_id=command_id.decode()))
        assert row is not None
        return int(row["count"])

    def ack(self, command_id: bytes, body: bytes = b'{"status":"succeeded"}', *lines: bytes) -> bytes:
        """An ACK as most collectors send it."""
        head = [
            b"POST %b%b/ack HTTP/1.1" % (BASE, command_id),
            b"Host: x",
            b"Authorization: Bearer " + self.token,
            b"Content-Type: application/json",
            b"Content-Length: %d" % len(body),
        ]
        return b"\r\n".join([*head, *lines, b"", body])

    def poll(self, query: bytes = b"") -> bytes:
        return b"GET %bpoll%b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n" % (BASE, query, self.token)

    @property
    def hot_requests(self) -> int:
        return self.node.lane.hot_requests

    def ask_hot(self, wire: Wire, data: bytes) -> WireAnswer:
        """The answer of the fast lane, which must be the one to give it."""
        before = self.hot_requests
        answer = wire.ask(data)
        assert self.hot_requests == before + 1
        return answer


def said(answer: WireAnswer) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(answer.body)
    return found
