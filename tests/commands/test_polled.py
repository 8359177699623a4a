import msgspec

from restante.commands.command_types import COMMAND_TYPES
from restante.commands.creation import CommandWish, create
from restante.commands.parts import CommandsOptions
from restante.commands.polled import LEGACY_NAMES, PollAnswer, SignedPart, poll_answer
from restante.commands.signing import verify_signed
from restante.core.canonical import SIGNED_FIELDS
from restante.database.database import Database
from tests.commands.field import ACTOR, Field
from tests.conftest import ManualClock

FIELDS = [
    "command_id", "site_id", "zone_id", "miner_id", "command_type", "params", "priority", "expires_at", "dedupe_key",
    "signed_at", "nonce", "signature", "sig_version", "sig_encoding", "command", "attempt", "retry_count",
    "max_retries", "lease_until", "lease_duration_sec",
]  # fmt: skip


def test_every_type_has_the_name_the_field_reads() -> None:
    assert list(LEGACY_NAMES) == list(COMMAND_TYPES)
    assert list(LEGACY_NAMES.values()) == [
        "restart", "reboot", "enable", "disable", "set_pool", "set_fan", "set_frequency", "power_mode",
    ]  # fmt: skip


def test_what_is_signed_stands_in_canonical_order() -> None:
    assert list(SignedPart.__struct_fields__) == sorted(SIGNED_FIELDS)


def test_a_command_has_every_field(database: Database, clock: ManualClock) -> None:
    field = Field(database)
    site = field.add_site()
    miner = field.add_miner(site)
    field.send(site, miner, "restart", params='{"reason":"größer"}'.encode(), priority=3, dedupe_key="k")
    clock.advance(5)
    claimed = field.claim(field.hire(site).caller)
    answer = poll_answer(claimed, field.parts.box, 60)
    told = msgspec.to_builtins(answer)
    command = told["commands"][0]
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
    assert (told["miner_command_count"], told["remote_command_count"], told["rate_limited_count"]) == (1, 0, 0)
    assert told["server_time"] == "2027-01-15T08:00:05Z"


def test_a_signature_is_the_collectors_own(database: Database) -> None:
    field = Field(database, CommandsOptions(is_signed=True))
    site = field.add_site()
    miner = field.add_miner(site)
    for _ in range(2):
        field.send(site, miner)
    first, second = field.hire(site), field.hire(site)
    for hired, other in ((first, second), (second, first)):
        claimed = field.claim(hired.caller, limit=1)
        command = msgspec.to_builtins(poll_answer(claimed, field.parts.box, 60).commands[0])
        assert verify_signed(command, hired.secret).is_valid
        assert not verify_signed(command, other.secret).is_valid


def test_commands_for_many_are_counted_apart(database: Database) -> None:
    field = Field(database)
    site = field.add_site()
    miners = [field.add_miner(site) for _ in range(3)]
    field.send(site, miners[0])
    wish = CommandWish(site_id=site, target_ids=miners[:2], command_type="MINER_RESTART")
    database.write_now(create, field.trail, wish, ACTOR)
    answer: PollAnswer = poll_answer(field.claim(field.hire(site).caller), field.parts.box, 60)
    assert (answer.miner_command_count, answer.remote_command_count) == (1, 1)
    remote = answer.commands[1]
    assert (remote.miner_id, remote.params["target_ids"]) == (None, miners[:2])
