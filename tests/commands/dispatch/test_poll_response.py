import msgspec

from restante.commands.dispatch.poll_response import CommandPollResponse, SignedFields, build_poll_response
from restante.commands.dispatch.signing import verify_command
from restante.commands.lifecycle.command_types import COMMAND_TYPES
from restante.commands.lifecycle.creation import CommandRequest, create
from restante.core.commands.canonical import SIGNED_FIELDS
from restante.database.database import Database
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import ACTOR, CommandsHarness
from tests.conftest import ManualClock

FIELDS = [
    "command_id", "site_id", "zone_id", "miner_id", "command_type", "params", "priority", "expires_at", "dedupe_key",
    "signed_at", "nonce", "signature", "sig_version", "sig_encoding", "command", "attempt", "retry_count",
    "max_retries", "lease_until", "lease_duration_sec",
]  # fmt: skip


def test_every_type_has_its_legacy_name() -> None:
    assert [each.legacy_name for each in COMMAND_TYPES.values()] == [
        "restart", "reboot", "enable", "disable", "set_pool", "set_fan", "set_frequency", "power_mode",
    ]  # fmt: skip


def test_signed_fields_are_in_canonical_order() -> None:
    assert list(SignedFields.__struct_fields__) == sorted(SIGNED_FIELDS)


def test_polled_command_has_every_field(database: Database, clock: ManualClock) -> None:
    harness = CommandsHarness(database)
    site = harness.add_site()
    miner = harness.add_miner(site)
    harness.add_command(site, miner, "restart", params='{"reason":"größer"}'.encode(), priority=3, dedupe_key="k")
    clock.advance(5)
    claimed = harness.claim(harness.add_collector(site).caller)
    response = build_poll_response(claimed, harness.component.box, 60)
    body = msgspec.to_builtins(response)
    command = body["commands"][0]
    assert list(command) == FIELDS
    assert {name: command[name] for name in FIELDS if name not in ("command_id", "nonce", "zone_id")} == {
        "site_id": site,
        "miner_id": miner,
        "command_type": "MINER_RESTART",
        "params": {"reason": "größer"},
        "priority": 3,
        "expires_at": "2027-01-15T09:00:00Z",
        "dedupe_key": "k",
        "signed_at": "2027-01-15T08:00:05Z",
        "signature": None,
        "sig_version": None,
        "sig_encoding": None,
        "command": "restart",
        "attempt": 1,
        "retry_count": 0,
        "max_retries": 3,
        "lease_until": "2027-01-15T08:01:05Z",
        "lease_duration_sec": 60,
    }
    assert (body["miner_command_count"], body["remote_command_count"], body["rate_limited_count"]) == (1, 0, 0)
    assert body["server_time"] == "2027-01-15T08:00:05Z"


def test_command_is_signed_with_the_secret_of_its_collector(database: Database) -> None:
    harness = CommandsHarness(database, commands_options(is_signed=True))
    site = harness.add_site()
    miner = harness.add_miner(site)
    for _ in range(2):
        harness.add_command(site, miner)
    first, second = harness.add_collector(site), harness.add_collector(site)
    for collector, other in ((first, second), (second, first)):
        claimed = harness.claim(collector.caller, limit=1)
        command = msgspec.to_builtins(build_poll_response(claimed, harness.component.box, 60).commands[0])
        assert verify_command(command, collector.secret).is_valid
        assert not verify_command(command, other.secret).is_valid


def test_commands_for_many_miners_are_counted_separately(database: Database) -> None:
    harness = CommandsHarness(database)
    site = harness.add_site()
    miners = [harness.add_miner(site) for _ in range(3)]
    harness.add_command(site, miners[0])
    request = CommandRequest(site_id=site, target_ids=miners[:2], command_type="MINER_RESTART")
    database.write_now(create, harness.trail, request, ACTOR, harness.creation_options)
    response: CommandPollResponse = build_poll_response(
        harness.claim(harness.add_collector(site).caller), harness.component.box, 60
    )
    assert (response.miner_command_count, response.remote_command_count) == (1, 1)
    remote = response.commands[1]
    assert (remote.miner_id, remote.params["target_ids"]) == (None, miners[:2])
