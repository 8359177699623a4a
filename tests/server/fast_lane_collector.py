"""A running server with a collector whose token is cached, for tests with raw polls and ACKs."""

from pathlib import Path
from typing import Any

import msgspec

from restante.commands.dispatch.claims import ClaimRequest, claim
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest
from restante.commands.sites import collectors, miners, sites
from restante.commands.sites.miners import MinerRequest
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity.callers import CollectorCaller
from restante.server.config.options import commands_options
from tests.defaults import claim_options
from tests.server.live_server import LiveServer, RawConnection, RawResponse

BASE = b"/api/edge/v1/commands/"
ACTOR = "tests"
# More than any of these tests dispatches.
NO_LIMITS = RateRules({}, RateLimit(1_000_000, 60))

_STATE = Query("state", "SELECT status FROM miner_commands WHERE command_id = :command_id")
_ACKS = Query(
    "acks",
    "SELECT count(*) AS count FROM command_audit WHERE command_id = :command_id AND event = 'command.succeeded'",
)


class CollectorServer:
    """A server with one site, a miner and a collector."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.live_server = LiveServer(folder, **{"command_rate_limits": NO_LIMITS, **settings})
        self.node = self.live_server.node
        self._options = commands_options(self.node.settings)
        self.node.database.write_now(self._add_site)
        self.cache_token()

    def _add_site(self, conn: Connection) -> None:
        trail, box = self.node.commands.trail, self.node.commands.box
        self.site_id = sites.add(conn, trail, "site", ACTOR).id
        self.miner_id = miners.add(conn, trail, MinerRequest(self.site_id, "miner"), ACTOR).id
        collector = collectors.create(conn, trail, box, self.site_id, None, "collector", ACTOR)
        self.token = collector.token.encode()
        self.caller = CollectorCaller(collector.id, self.site_id, None)

    def cache_token(self) -> None:
        """Verify the token of the collector, so that the fast lane finds it in its cache."""
        self.live_server.wait_for(self.node.identity.collector_tokens.verify(self.token.decode()))

    def create(self, command_type: str = "HASHING_ENABLE") -> str:
        """Create a command for a new miner: a miner gets one command at a time."""
        trail, database = self.node.commands.trail, self.node.database
        miner = database.write_now(miners.add, trail, MinerRequest(self.site_id, "its own miner"), ACTOR)
        request = CommandRequest(site_id=self.site_id, miner_id=miner.id, command_type=command_type)
        options = self._options.for_creation(self.node.commands.box)
        created = database.write_now(creation.create, trail, request, ACTOR, options)
        # The commit event is in the queue of the event loop: this call returns after it was handled.
        self.live_server.call(lambda: None)
        return created.command_id

    def lease(self) -> bytes:
        """Create a command, lease it to the collector, and return its id."""
        command_id = self.create()
        claim_request = ClaimRequest(self.caller, None, 50)
        self.node.database.write_now(claim, self.node.commands.trail, claim_options(rates=NO_LIMITS), claim_request)
        return command_id.encode()

    def state(self, command_id: bytes) -> str:
        # The writer runs this after every write that is waiting.
        row = self.node.database.write_now(lambda conn: conn.one(_STATE, command_id=command_id.decode()))
        assert row is not None
        return str(row["status"])

    def success_count(self, command_id: bytes) -> int:
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
    def fast_requests(self) -> int:
        return self.node.lane.fast_requests

    def request_fast(self, wire: RawConnection, data: bytes) -> RawResponse:
        """Send a request that the fast lane must handle, and return the response."""
        before = self.fast_requests
        response = wire.request(data)
        assert self.fast_requests == before + 1
        return response


def decode_body(response: RawResponse) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(response.body)
    return found
