"""The bytes that a collector gets for each command type, and the bytes that are signed: both lanes, both engines.

Collectors in the field read certain parameter names only. Under any other name they carry the command out as something
else, so this test compares bytes, not values.
"""

import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import pytest

from restante.commands.audit.audit_verify import LiveVerification
from restante.commands.lifecycle import listing
from restante.commands.lifecycle.command_types import COMMAND_TYPES
from restante.database.database import Database
from restante.database.queries import Query
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import CommandsHarness, CommandsServer
from tests.server.live_server import RawConnection, RawResponse

POOL = "stratum+tcp://pool.example:3333"
# Command type, the parameters as an operator gives them, and the parameters as a collector must get them.
CASES = [
    ("MINER_RESTART", b'{"reason": "slow", "delay_sec": 5}', b'{"delay_sec":5,"reason":"slow"}'),
    ("DEVICE_REBOOT", b'{"force": true}', b'{"force":true}'),
    ("HASHING_ENABLE", b"{}", b"{}"),
    ("HASHING_DISABLE", b'{"reason": "curtailment"}', b'{"reason":"curtailment"}'),
    (
        "POOL_SET",
        b'{"url": "stratum+tcp://pool.example:3333", "worker": "w", "password": "x"}',
        b'{"pool_password":"x","pool_url":"stratum+tcp://pool.example:3333","pool_user":"w"}',
    ),
    (
        "POOL_SET",
        b'{"pools": [{"url": "stratum+tcp://pool.example:3333", "user": "u"}]}',
        b'{"pool_url":"stratum+tcp://pool.example:3333","pool_user":"u"}',
    ),
    ("POOL_SET", b'{"pool_id": 1}', b'{"pool_id":1}'),
    ("SET_FAN", b'{"fan_speed": 60, "reason": "hot"}', b'{"reason":"hot","speed":60}'),
    ("SET_FAN", b'{"speed_percent": 60}', b'{"speed":60}'),
    ("SET_FAN", b'{"speed": 60}', b'{"speed":60}'),
    ("SET_FREQUENCY", b'{"frequency_mhz": 525}', b'{"frequency":525}'),
    ("SET_FREQUENCY", b'{"frequency": 525}', b'{"frequency":525}'),
    ("POWER_MODE", b'{"mode": "LOW"}', b'{"mode":"LOW"}'),
    ("POWER_MODE", b'{"power_mode": "HIGH"}', b'{"power_mode":"HIGH"}'),
]
STORE = Query("store", "UPDATE miner_commands SET params = :params WHERE command_id = :command_id")


class SignedSite:
    """A server that signs, with one site, a miner and a collector whose token is cached."""

    def __init__(self, database: Database) -> None:
        self.harness = CommandsHarness(database, commands_options(is_signed=True))
        self.site_id = self.harness.add_site()
        self.miner = self.harness.add_miner(self.site_id)
        self.collector = self.harness.add_collector(self.site_id)
        self.server = CommandsServer(self.harness)
        self.server.cache_token(self.collector)

    def send(self, command_type: str, params: bytes) -> str:
        return self.harness.add_command(self.site_id, self.miner, command_type, params=params).command_id

    def store(self, command_type: str, valid: bytes, stored: str) -> str:
        """A command as an older version stored it."""
        command_id = self.send(command_type, valid)
        self.harness.database.write_now(lambda conn: conn.run(STORE, params=stored, command_id=command_id))
        return command_id

    def poll(self, lane: str) -> RawResponse:
        port = self.server.fast_port if lane == "fast" else self.server.plain_port
        head = f"GET /api/edge/v1/commands/poll HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.collector.token}"
        with RawConnection(port) as wire:
            return wire.request(f"{head}\r\n\r\n".encode())

    def signature_over(self, command: dict[str, Any], params: bytes) -> str:
        """The contract's formula over these bytes of the parameters, with the other ten fields as received."""
        expected = (
            b'{"command_id":%b,"command_type":%b,"dedupe_key":null,"expires_at":%b,"miner_id":%b,"nonce":%b,'
            b'"params":%b,"priority":0,"signed_at":%b,"site_id":%b,"zone_id":%b}'
        ) % (
            *(json.dumps(command[name]).encode() for name in ("command_id", "command_type", "expires_at")),
            *(json.dumps(command[name]).encode() for name in ("miner_id", "nonce")),
            params,
            *(json.dumps(command[name]).encode() for name in ("signed_at", "site_id", "zone_id")),
        )
        return hmac.new(self.collector.secret.encode(), expected, hashlib.sha256).hexdigest()


@pytest.fixture
def site(database: Database) -> Iterator[SignedSite]:
    site = SignedSite(database)
    yield site
    site.server.close()


@pytest.fixture(params=["fast", "plain"])
def lane(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_type_has_a_case() -> None:
    assert {command_type for command_type, _, _ in CASES} == set(COMMAND_TYPES)


def test_collector_gets_exactly_the_names_that_it_reads(site: SignedSite, lane: str) -> None:
    for command_type, given, expected in CASES:
        command_id = site.send(command_type, given)
        response = site.poll(lane)
        (command,) = json.loads(response.body)["commands"]
        assert command["command_id"] == command_id
        assert b'"params":' + expected + b',"priority"' in response.body
        assert command["signature"] == site.signature_over(command, expected)


@pytest.mark.parametrize(
    ("command_type", "valid", "stored", "expected"),
    [
        ("SET_FAN", b'{"speed":1}', '{"fan_speed":60}', b'{"speed":60}'),
        ("SET_FREQUENCY", b'{"frequency":1}', '{"frequency_mhz":525}', b'{"frequency":525}'),
        (
            "POOL_SET",
            b'{"pool_id":1}',
            '{"pools":[{"password":"x","url":"stratum+tcp://pool.example:3333","worker":"w"}]}',
            b'{"pool_password":"x","pool_url":"stratum+tcp://pool.example:3333","pool_user":"w"}',
        ),
        ("POWER_MODE", b'{"mode":"LOW"}', '{"mode":"LOW","other":1}', b'{"mode":"LOW","other":1}'),
    ],
)
def test_command_of_an_older_version_is_renamed_before_it_is_signed(
    site: SignedSite, lane: str, command_type: str, valid: bytes, stored: str, expected: bytes
) -> None:
    command_id = site.store(command_type, valid, stored)
    response = site.poll(lane)
    (command,) = json.loads(response.body)["commands"]
    assert b'"params":' + expected + b',"priority"' in response.body
    assert command["signature"] == site.signature_over(command, expected)
    assert site.harness.command(command_id)["params"].encode() == expected
    events = [event for event, about, _, _ in site.harness.audit(site.site_id) if about == command_id]
    renamed = [] if stored.encode() == expected else ["command.params_renamed"]
    assert events == ["command.created", *renamed, "command.dispatched"]
    assert is_audit_intact(site.harness)


@pytest.mark.parametrize(
    ("command_type", "valid", "stored", "message"),
    [
        (
            "POOL_SET",
            b'{"pool_id":1}',
            '{"pools":[{"url":"stratum+tcp://a:1"},{"url":"stratum+tcp://b:1"}]}',
            "params.pools: expected a list of exactly one object: collectors set one pool at a time",
        ),
        (
            "SET_FAN",
            b'{"speed":1}',
            '{"fan_id":2,"speed":60}',
            "params.fan_id: expected one of the parameters of SET_FAN: speed, reason",
        ),
    ],
)
def test_command_of_an_older_version_that_collectors_cannot_read_is_cancelled(
    site: SignedSite, lane: str, command_type: str, valid: bytes, stored: str, message: str
) -> None:
    unreadable = site.store(command_type, valid, stored)
    following = site.send(command_type, valid)
    commands = json.loads(site.poll(lane).body)["commands"]
    assert [command["command_id"] for command in commands] == [following]
    view = site.harness.database.read_now(listing.get, unreadable)
    assert (view.status, view.result_code) == ("cancelled", "PARAMS_UNREADABLE")
    assert (view.result_message or "").startswith(message)
    assert view.attempt == 0
    assert ("command.cancelled", unreadable, "pending", "cancelled") in site.harness.audit(site.site_id)
    assert is_audit_intact(site.harness)
    assert json.loads(site.poll(lane).body)["commands"] == []


def is_audit_intact(harness: CommandsHarness) -> bool:
    verification = LiveVerification(harness.trail.mac)
    while harness.database.read_now(verification.step):
        pass
    return verification.verdict.intact
