import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from restante.commands import cancelling, creation
from restante.commands.approval import ApprovalRules
from restante.commands.creation import CreationOptions
from restante.commands.queue import rank_of
from restante.commands.rate_windows import RateLimit, RateRules
from restante.commands.wire import CommandFinished, CommandNotFound, DuplicateActive, RateLimited
from restante.core.errors import BadInput
from restante.database.database import Database
from tests.commands.operators import World, now_of
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def test_a_command_for_one_miner(world: World) -> None:
    made = world.create(command_type="restart", params=b'{"reason": "r"}', priority=3, dedupe_key="k")
    assert made.command_id.startswith("cmd_")
    assert (made.status, made.command_type, made.priority) == ("pending", "MINER_RESTART", 3)
    assert (made.site_id, made.zone_id, made.miner_id) == (world.site_id, world.default_zone, world.miner)
    shown = world.show(made.command_id)
    assert (shown.created_by, shown.dedupe_key, shown.attempt) == ("maker", "k", 0)
    assert (shown.max_retries, shown.status) == (3, "pending")
    assert world.params(made.command_id) == {"reason": "r"}
    assert world.sites_told() == [world.site_id]


def test_its_place_in_the_queue_and_its_retries_follow_the_options(database: Database, clock: ManualClock) -> None:
    options = CreationOptions(max_retries=7, retry_backoff_sec=11, priority_ageing_seconds=60)
    world = World(database, clock, options)
    world.create(priority=2)
    world.create(priority=2, max_retries=0)
    rows = world.query("SELECT rank, max_retries, retry_backoff_sec FROM miner_commands ORDER BY id")
    assert [tuple(dict(row).values()) for row in rows] == [
        (rank_of(START_MS, 2, 60), 7, 11),
        (rank_of(START_MS, 2, 60), 0, 11),
    ]


def test_the_zone_is_the_miners(world: World) -> None:
    assert world.create(miner_id=world.east_miner).zone_id == world.east
    assert world.create(miner_id=world.east_miner, zone_id=world.east).zone_id == world.east


def test_a_command_for_many_miners(world: World) -> None:
    made = world.create(miner_id=None, target_ids=[world.second_miner, world.miner])
    assert (made.miner_id, made.miner_count, made.zone_id) == (None, 2, world.default_zone)
    assert world.params(made.command_id) == {"target_ids": [world.second_miner, world.miner]}
    mixed = world.create(miner_id=None, target_ids=[world.east_miner, world.miner])
    assert mixed.zone_id == world.default_zone
    alone = world.create(miner_id=None, target_ids=[world.east_miner])
    assert (alone.miner_id, alone.miner_count, alone.zone_id) == (None, 1, world.east)


def test_a_command_for_all_miners(world: World) -> None:
    made = world.create(miner_id=None, all_miners=True, params=b'{"reason": "storm"}')
    everyone = [world.miner, world.second_miner, world.east_miner]
    assert world.params(made.command_id) == {"reason": "storm", "target_ids": everyone}
    assert (made.miner_id, made.miner_count) == (None, 3)
    east = world.create(miner_id=None, all_miners=True, zone_id=world.east)
    assert world.params(east.command_id) == {"target_ids": [world.east_miner]}
    assert east.zone_id == world.east


def test_a_large_site_is_still_one_command(world: World) -> None:
    """The bound on parameters is on what operators send, not on the list of miners that the server writes."""
    world.query(
        "WITH RECURSIVE ids (id) AS (SELECT 100000 UNION ALL SELECT id + 1 FROM ids WHERE id < 105999) "
        "INSERT INTO edge_miners (id, site_id, zone_id, name, created_at) "
        "SELECT id, :site_id, :zone_id, 'miner', 0 FROM ids",
        site_id=world.site_id,
        zone_id=world.default_zone,
    )
    made = world.create(miner_id=None, all_miners=True)
    assert made.miner_count == 6003
    assert len(world.params(made.command_id)["target_ids"]) == 6003


def test_when_it_expires(world: World) -> None:
    world.clock.now_ms += 1  # not at a whole second
    wishes: list[tuple[dict[str, Any], int]] = [
        ({}, 3601),
        ({"ttl_sec": 1}, 2),
        ({"expires_at_ms": START_MS + 90_000}, 90),
    ]
    for changed, seconds in wishes:
        command_id = world.create(**changed).command_id
        row = world.query("SELECT expires_at FROM miner_commands WHERE command_id = :id", id=command_id)[0]
        assert row["expires_at"] == START_MS + seconds * 1000


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"command_type": "SELF_DESTRUCT"}, "command_type"),
        ({"params": b'{"a": 1.5}'}, "params"),
        ({"params": b'{"reason": 1}'}, "params.reason"),
        ({"site_id": 99}, "site_id"),
        ({"miner_id": 99}, "miner_id"),
        ({"miner_id": None}, "miner_id"),
        ({"all_miners": True}, "miner_id"),
        ({"target_ids": [1]}, "miner_id"),
        ({"miner_id": None, "target_ids": []}, "target_ids"),
        ({"miner_id": None, "target_ids": [1, 1]}, "target_ids"),
        ({"miner_id": None, "target_ids": [1, 99]}, "target_ids"),
        ({"zone_id": 99}, "zone_id"),
        ({"priority": -1}, "priority"),
        ({"priority": 1001}, "priority"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 101}, "max_retries"),
        ({"ttl_sec": 0}, "ttl_sec"),
        ({"ttl_sec": 366 * 86_400 + 1}, "ttl_sec"),
        ({"ttl_sec": 10, "expires_at_ms": START_MS + 1000}, "expires_at"),
        ({"expires_at_ms": START_MS}, "expires_at"),
        ({"expires_at_ms": START_MS + 367 * 86_400_000}, "expires_at"),
        ({"dedupe_key": ""}, "dedupe_key"),
        ({"dedupe_key": "x" * 129}, "dedupe_key"),
        ({"dedupe_key": "a\nb"}, "dedupe_key"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(world: World, changed: dict[str, Any], field: str) -> None:
    before = world.count("command_audit")
    with pytest.raises(BadInput) as refused:
        world.create(**changed)
    assert refused.value.field == field
    assert (world.count(), world.count("command_audit")) == (0, before)
    assert world.sites_told() == []


def test_miners_and_zones_of_others_look_like_none(world: World) -> None:
    foreign_zone = world.query("SELECT id FROM edge_zones WHERE site_id = :id", id=world.other_site)[0]["id"]
    for field, foreign, absent in (
        ("miner_id", {"miner_id": world.foreign_miner}, {"miner_id": 99}),
        (
            "target_ids",
            {"miner_id": None, "target_ids": [world.foreign_miner]},
            {"miner_id": None, "target_ids": [99]},
        ),
        ("zone_id", {"zone_id": foreign_zone}, {"zone_id": 99}),
    ):
        said = []
        for changed in (foreign, absent):
            with pytest.raises(BadInput) as refused:
                world.create(**changed)
            said.append((refused.value.field, refused.value.expected))
        assert said[0] == said[1]
        assert said[0][0] == field


def test_a_zone_narrows(world: World) -> None:
    with pytest.raises(BadInput) as refused:
        world.create(zone_id=world.east)
    assert refused.value.field == "zone_id"
    with pytest.raises(BadInput) as refused:
        world.create(miner_id=None, target_ids=[world.miner], zone_id=world.east)
    assert refused.value.field == "target_ids"


def test_all_miners_of_nowhere(world: World) -> None:
    empty = world.query("INSERT INTO edge_zones (site_id, name, created_at) VALUES (1, 'empty', 0) RETURNING id")
    with pytest.raises(BadInput) as refused:
        world.create(miner_id=None, all_miners=True, zone_id=empty[0]["id"])
    assert refused.value.field == "all_miners"


def test_a_second_active_command_with_the_key_is_refused(world: World) -> None:
    first = world.create(dedupe_key="k")
    with pytest.raises(DuplicateActive) as refused:
        world.create(dedupe_key="k")
    assert refused.value.fields == {"command_id": first.command_id}
    collector = world.add_collector()
    assert world.claim(collector) == [first.command_id]
    with pytest.raises(DuplicateActive):
        world.create(dedupe_key="k")
    world.write(cancelling.cancel, first.command_id, "maker")
    assert world.create(dedupe_key="k").status == "pending"
    assert world.create(dedupe_key="other").status == "pending"
    assert world.create().status == world.create().status == "pending"


def test_a_key_whose_command_has_expired_is_free(world: World) -> None:
    first = world.create(dedupe_key="k", ttl_sec=60)
    world.clock.advance(59)
    with pytest.raises(DuplicateActive):
        world.create(dedupe_key="k")
    world.clock.advance(1)
    assert world.create(dedupe_key="k").status == "pending"
    assert world.show(first.command_id).status == "expired"


def test_of_fifty_equal_keys_at_once_one_is_made(world: World) -> None:
    def attempt(_n: int) -> str:
        try:
            return world.create(dedupe_key="k").command_id
        except DuplicateActive as refused:
            return f"after {refused.fields['command_id']}"

    with ThreadPoolExecutor(50) as threads:
        outcomes = list(threads.map(attempt, range(50)))
    made = [outcome for outcome in outcomes if not outcome.startswith("after")]
    assert len(made) == 1
    assert sorted(set(outcomes)) == sorted({made[0], f"after {made[0]}"})
    assert world.count() == 1


def test_the_index_decides_and_not_a_look(world: World) -> None:
    """Taking the index away lets a second one in: nothing else holds it back."""
    world.query("DROP INDEX ix_miner_commands_dedupe_active")
    world.create(dedupe_key="k")
    world.create(dedupe_key="k")
    assert world.count() == 2


def test_over_the_rate_limit(database: Database, clock: ManualClock) -> None:
    rules = RateRules({"HASHING_ENABLE": RateLimit(2, 100)})
    world = World(database, clock, CreationOptions(rate_rules=rules))
    collector = world.add_collector()
    for _ in range(4):
        world.create()
    assert len(world.claim(collector)) == 2
    world.clock.advance(30)
    with pytest.raises(RateLimited) as refused:
        world.create()
    assert refused.value.retry_after_seconds == 70
    assert world.count() == 4
    # Other types and other sites have windows of their own.
    assert world.create(command_type="HASHING_DISABLE").status == "pending"
    assert world.create(site_id=world.other_site, miner_id=world.foreign_miner).status == "pending"
    world.clock.advance(70)
    assert world.create().status == "pending"


def test_approval_by_type_and_by_number(database: Database, clock: ManualClock) -> None:
    rules = ApprovalRules(frozenset({"DEVICE_REBOOT"}), miners_from=3)
    world = World(database, clock, CreationOptions(approval=rules))
    assert world.create().status == "pending"
    assert world.create(command_type="device_reboot").status == "pending_approval"
    assert world.create(miner_id=None, target_ids=[world.miner, world.second_miner]).status == "pending"
    assert world.create(miner_id=None, all_miners=True).status == "pending_approval"


def test_commands_that_wait_for_approval_do_not_pile_up(database: Database, clock: ManualClock) -> None:
    world = World(database, clock, CreationOptions(approval=ApprovalRules(frozenset({"HASHING_ENABLE"}))))
    first = world.create(dedupe_key="k")
    with pytest.raises(DuplicateActive) as refused:
        world.create(dedupe_key="k")
    assert refused.value.fields == {"command_id": first.command_id}
    assert world.create(dedupe_key="k", command_type="HASHING_DISABLE").status == "pending"


def test_a_command_that_replaces_another(world: World) -> None:
    old = world.create(dedupe_key="k")
    new = world.create(dedupe_key="k", supersedes=old.command_id)
    shown = world.show(old.command_id)
    assert (shown.status, shown.superseded_by, shown.result_code) == ("cancelled", new.command_id, "SUPERSEDED")
    assert world.show(new.command_id).status == "pending"


def test_what_cannot_be_replaced(world: World) -> None:
    old = world.create()
    foreign = world.create(site_id=world.other_site, miner_id=world.foreign_miner)
    world.write(cancelling.cancel, old.command_id, "maker")
    for supersedes, error in (
        (old.command_id, CommandFinished),
        ("cmd_none", CommandNotFound),
        (foreign.command_id, BadInput),
    ):
        with pytest.raises(error):
            world.create(supersedes=supersedes)
    assert world.count() == 2
    assert world.show(foreign.command_id).status == "pending"


def test_it_is_recorded_without_its_parameters(world: World) -> None:
    params = b'{"password":"hunter2","pool_url":"stratum+tcp://pool.example.com"}'
    made = world.create(command_type="POOL_SET", params=params, rule_id=None)
    assert world.events(made.command_id) == [("maker", "command.created", None, "pending")]
    detail = bytes(world.show(made.command_id).history[0].detail)
    assert b"hunter2" not in detail
    assert hashlib.sha256(params).hexdigest().encode() in detail


def test_a_failed_one_of_several_in_a_transaction_leaves_none(world: World) -> None:
    def both(conn: Any) -> None:
        creation.create(conn, world.trail, world.wish(), "maker")
        creation.create(conn, world.trail, world.wish(miner_id=99), "maker")

    with pytest.raises(BadInput):
        world.database.write_now(both)
    assert world.count() == 0
    assert world.verdict().intact
    assert world.database.read_now(now_of) == START_MS
