import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.errors import CommandFinished, CommandNotFound, DuplicateActive, RateLimited
from restante.commands.lifecycle import cancellation, creation
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.lifecycle.ordering import rank_of
from restante.core.errors import BadInput
from restante.database.database import Database
from tests.commands.operator_fixture import MinerFleet, creation_options, now_of
from tests.conftest import START_MS, ManualClock


def test_command_for_one_miner_is_stored(fleet: MinerFleet) -> None:
    created = fleet.create(command_type="restart", params=b'{"reason": "r"}', priority=3, dedupe_key="k")
    assert created.command_id.startswith("cmd_")
    assert (created.status, created.command_type, created.priority) == ("pending", "MINER_RESTART", 3)
    assert (created.site_id, created.zone_id, created.miner_id) == (fleet.site_id, fleet.default_zone, fleet.miner)
    view = fleet.show(created.command_id)
    assert (view.created_by, view.dedupe_key, view.attempt) == ("maker", "k", 0)
    assert (view.max_retries, view.status) == (3, "pending")
    assert fleet.params(created.command_id) == {"reason": "r"}
    assert fleet.changed_sites() == [fleet.site_id]


def test_rank_and_retries_follow_the_options(database: Database, clock: ManualClock) -> None:
    options = creation_options(max_retries=7, retry_backoff_sec=11, priority_ageing_seconds=60)
    fleet = MinerFleet(database, clock, options)
    fleet.create(priority=2)
    fleet.create(priority=2, max_retries=0)
    rows = fleet.query("SELECT rank, max_retries, retry_backoff_sec FROM miner_commands ORDER BY id")
    assert [tuple(dict(row).values()) for row in rows] == [
        (rank_of(START_MS, 2, 60), 7, 11),
        (rank_of(START_MS, 2, 60), 0, 11),
    ]


def test_command_belongs_to_the_zone_of_its_miner(fleet: MinerFleet) -> None:
    assert fleet.create(miner_id=fleet.east_miner).zone_id == fleet.east
    assert fleet.create(miner_id=fleet.east_miner, zone_id=fleet.east).zone_id == fleet.east


def test_command_for_many_miners_lists_them_in_its_params(fleet: MinerFleet) -> None:
    created = fleet.create(miner_id=None, target_ids=[fleet.second_miner, fleet.miner])
    assert (created.miner_id, created.miner_count, created.zone_id) == (None, 2, fleet.default_zone)
    assert fleet.params(created.command_id) == {"target_ids": [fleet.second_miner, fleet.miner]}
    mixed = fleet.create(miner_id=None, target_ids=[fleet.east_miner, fleet.miner])
    assert mixed.zone_id == fleet.default_zone
    alone = fleet.create(miner_id=None, target_ids=[fleet.east_miner])
    assert (alone.miner_id, alone.miner_count, alone.zone_id) == (None, 1, fleet.east)


def test_command_for_all_miners_lists_them_in_its_params(fleet: MinerFleet) -> None:
    created = fleet.create(miner_id=None, all_miners=True, params=b'{"reason": "storm"}')
    all_ids = [fleet.miner, fleet.second_miner, fleet.east_miner]
    assert fleet.params(created.command_id) == {"reason": "storm", "target_ids": all_ids}
    assert (created.miner_id, created.miner_count) == (None, 3)
    east = fleet.create(miner_id=None, all_miners=True, zone_id=fleet.east)
    assert fleet.params(east.command_id) == {"target_ids": [fleet.east_miner]}
    assert east.zone_id == fleet.east


def test_command_for_all_miners_of_a_large_site_may_exceed_the_limit_on_params(fleet: MinerFleet) -> None:
    """The limit applies to the params that operators send, not to the list of miners that the server adds."""
    fleet.query(
        "WITH RECURSIVE ids (id) AS (SELECT 100000 UNION ALL SELECT id + 1 FROM ids WHERE id < 105999) "
        "INSERT INTO edge_miners (id, site_id, zone_id, name, created_at) "
        "SELECT id, :site_id, :zone_id, 'miner', 0 FROM ids",
        site_id=fleet.site_id,
        zone_id=fleet.default_zone,
    )
    created = fleet.create(miner_id=None, all_miners=True)
    assert created.miner_count == 6003
    assert len(fleet.params(created.command_id)["target_ids"]) == 6003


def test_expiry_is_a_whole_second(fleet: MinerFleet) -> None:
    fleet.clock.now_ms += 1  # not at a whole second
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 3600),
        ({"ttl_sec": 60}, 60),
        ({"ttl_sec": 1}, 2),
        ({"expires_at_ms": START_MS + 90_000}, 90),
    ]
    for changed, seconds in cases:
        command_id = fleet.create(**changed).command_id
        row = fleet.query("SELECT expires_at FROM miner_commands WHERE command_id = :id", id=command_id)[0]
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
def test_invalid_field_is_named_and_nothing_is_created(fleet: MinerFleet, changed: dict[str, Any], field: str) -> None:
    before = fleet.count("command_audit")
    with pytest.raises(BadInput) as refused:
        fleet.create(**changed)
    assert refused.value.field == field
    assert (fleet.count(), fleet.count("command_audit")) == (0, before)
    assert fleet.changed_sites() == []


def test_miners_and_zones_of_other_sites_are_refused_like_missing_ones(fleet: MinerFleet) -> None:
    other_site_zone = fleet.query("SELECT id FROM edge_zones WHERE site_id = :id", id=fleet.other_site)[0]["id"]
    for field, other_site, absent in (
        ("miner_id", {"miner_id": fleet.other_site_miner}, {"miner_id": 99}),
        (
            "target_ids",
            {"miner_id": None, "target_ids": [fleet.other_site_miner]},
            {"miner_id": None, "target_ids": [99]},
        ),
        ("zone_id", {"zone_id": other_site_zone}, {"zone_id": 99}),
    ):
        errors = []
        for changed in (other_site, absent):
            with pytest.raises(BadInput) as refused:
                fleet.create(**changed)
            errors.append((refused.value.field, refused.value.expected))
        assert errors[0] == errors[1]
        assert errors[0][0] == field


def test_miner_outside_the_requested_zone_is_refused(fleet: MinerFleet) -> None:
    with pytest.raises(BadInput) as refused:
        fleet.create(zone_id=fleet.east)
    assert refused.value.field == "zone_id"
    with pytest.raises(BadInput) as refused:
        fleet.create(miner_id=None, target_ids=[fleet.miner], zone_id=fleet.east)
    assert refused.value.field == "target_ids"


def test_all_miners_of_an_empty_zone_is_refused(fleet: MinerFleet) -> None:
    empty = fleet.query("INSERT INTO edge_zones (site_id, name, created_at) VALUES (1, 'empty', 0) RETURNING id")
    with pytest.raises(BadInput) as refused:
        fleet.create(miner_id=None, all_miners=True, zone_id=empty[0]["id"])
    assert refused.value.field == "all_miners"


def test_second_active_command_with_the_dedupe_key_is_refused(fleet: MinerFleet) -> None:
    first = fleet.create(dedupe_key="k")
    with pytest.raises(DuplicateActive) as refused:
        fleet.create(dedupe_key="k")
    assert refused.value.fields == {"command_id": first.command_id}
    collector = fleet.add_collector()
    assert fleet.claim(collector) == [first.command_id]
    with pytest.raises(DuplicateActive):
        fleet.create(dedupe_key="k")
    fleet.write(cancellation.cancel, first.command_id, "maker")
    assert fleet.create(dedupe_key="k").status == "pending"
    assert fleet.create(dedupe_key="other").status == "pending"
    assert fleet.create().status == fleet.create().status == "pending"


def test_dedupe_key_of_an_expired_command_is_free(fleet: MinerFleet) -> None:
    first = fleet.create(dedupe_key="k", ttl_sec=60)
    fleet.clock.advance(59)
    with pytest.raises(DuplicateActive):
        fleet.create(dedupe_key="k")
    fleet.clock.advance(1)
    assert fleet.create(dedupe_key="k").status == "pending"
    assert fleet.show(first.command_id).status == "expired"


def test_one_of_fifty_concurrent_commands_with_the_same_dedupe_key_is_created(fleet: MinerFleet) -> None:
    def attempt(_n: int) -> str:
        try:
            return fleet.create(dedupe_key="k").command_id
        except DuplicateActive as refused:
            return f"after {refused.fields['command_id']}"

    with ThreadPoolExecutor(50) as threads:
        outcomes = list(threads.map(attempt, range(50)))
    created = [outcome for outcome in outcomes if not outcome.startswith("after")]
    assert len(created) == 1
    assert sorted(set(outcomes)) == sorted({created[0], f"after {created[0]}"})
    assert fleet.count() == 1


def test_unique_index_alone_prevents_duplicates(fleet: MinerFleet) -> None:
    """Without the index a second command is created: no other check prevents it."""
    fleet.query("DROP INDEX ix_miner_commands_dedupe_active")
    fleet.create(dedupe_key="k")
    fleet.create(dedupe_key="k")
    assert fleet.count() == 2


def test_command_over_the_rate_limit_is_refused(database: Database, clock: ManualClock) -> None:
    rules = RateRules({"HASHING_ENABLE": RateLimit(2, 100)})
    fleet = MinerFleet(database, clock, creation_options(rate_rules=rules))
    collector = fleet.add_collector()
    for _ in range(4):
        fleet.create()
    assert len(fleet.claim(collector)) == 2
    fleet.clock.advance(30)
    with pytest.raises(RateLimited) as refused:
        fleet.create()
    assert refused.value.retry_after_seconds == 70
    assert fleet.count() == 4
    # Other types and other sites have their own windows.
    assert fleet.create(command_type="HASHING_DISABLE").status == "pending"
    assert fleet.create(site_id=fleet.other_site, miner_id=fleet.other_site_miner).status == "pending"
    fleet.clock.advance(70)
    assert fleet.create().status == "pending"


def test_type_or_number_of_miners_requires_approval(database: Database, clock: ManualClock) -> None:
    rules = ApprovalRules(frozenset({"DEVICE_REBOOT"}), miners_from=3)
    fleet = MinerFleet(database, clock, creation_options(approval=rules))
    assert fleet.create().status == "pending"
    assert fleet.create(command_type="device_reboot").status == "pending_approval"
    pair: dict[str, Any] = {"miner_id": None, "target_ids": [fleet.miner, fleet.second_miner]}
    assert fleet.create("another maker", **pair).status == "pending"
    assert fleet.create(**pair).status == "pending_approval"
    assert fleet.create("a third maker", miner_id=None, all_miners=True).status == "pending_approval"


def test_second_command_that_waits_for_approval_with_the_dedupe_key_is_refused(
    database: Database, clock: ManualClock
) -> None:
    fleet = MinerFleet(database, clock, creation_options(approval=ApprovalRules(frozenset({"HASHING_ENABLE"}))))
    first = fleet.create(dedupe_key="k")
    with pytest.raises(DuplicateActive) as refused:
        fleet.create(dedupe_key="k")
    assert refused.value.fields == {"command_id": first.command_id}
    assert fleet.create(dedupe_key="k", command_type="HASHING_DISABLE").status == "pending"


def test_superseded_command_is_cancelled(fleet: MinerFleet) -> None:
    old = fleet.create(dedupe_key="k")
    new = fleet.create(dedupe_key="k", supersedes=old.command_id)
    view = fleet.show(old.command_id)
    assert (view.status, view.superseded_by, view.result_code) == ("cancelled", new.command_id, "SUPERSEDED")
    assert fleet.show(new.command_id).status == "pending"


def test_ended_missing_or_other_sites_command_cannot_be_superseded(fleet: MinerFleet) -> None:
    old = fleet.create()
    other_site = fleet.create(site_id=fleet.other_site, miner_id=fleet.other_site_miner)
    fleet.write(cancellation.cancel, old.command_id, "maker")
    for supersedes, error in (
        (old.command_id, CommandFinished),
        ("cmd_none", CommandNotFound),
        (other_site.command_id, BadInput),
    ):
        with pytest.raises(error):
            fleet.create(supersedes=supersedes)
    assert fleet.count() == 2
    assert fleet.show(other_site.command_id).status == "pending"


def test_audit_trail_has_digests_of_masked_and_sealed_params_only(fleet: MinerFleet) -> None:
    params = b'{"pool_password":"hunter2","pool_url":"stratum+tcp://pool.example.com"}'
    created = fleet.create(command_type="POOL_SET", params=params, rule_id=None)
    assert fleet.events(created.command_id) == [("maker", "command.created", None, "pending")]
    detail = bytes(fleet.show(created.command_id).history[0].detail)
    masked = params.replace(b"hunter2", b"[secret]")
    [row] = fleet.query("SELECT params, sealed_params FROM miner_commands")
    assert row["params"].encode() == masked
    assert hashlib.sha256(masked).hexdigest().encode() in detail
    assert hashlib.sha256(row["sealed_params"]).hexdigest().encode() in detail
    assert hashlib.sha256(params).hexdigest().encode() not in detail


def test_error_in_a_transaction_rolls_back_its_other_commands(fleet: MinerFleet) -> None:
    def both(conn: Any) -> None:
        creation.create(conn, fleet.trail, fleet.command_request(), "maker", fleet.options)
        creation.create(conn, fleet.trail, fleet.command_request(miner_id=99), "maker", fleet.options)

    with pytest.raises(BadInput):
        fleet.database.write_now(both)
    assert fleet.count() == 0
    assert fleet.verdict().intact
    assert fleet.database.read_now(now_of) == START_MS
