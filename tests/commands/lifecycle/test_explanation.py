import pytest

from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.errors import CommandNotFound
from restante.commands.lifecycle import approval, cancellation, explanation
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.lifecycle.explanation import Explanation
from restante.commands.sites import collectors
from restante.core.iso_time import iso_precise
from restante.database.database import Database
from tests.commands.operator_fixture import MinerFleet, creation_options
from tests.conftest import START_MS, ManualClock

RULES = RateRules({"HASHING_ENABLE": RateLimit(1, 100)})
OPTIONS = creation_options(rate_rules=RULES, approval=ApprovalRules(frozenset({"DEVICE_REBOOT"})))


def at(seconds: float) -> str:
    return iso_precise(START_MS + int(seconds * 1000))


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    return MinerFleet(database, clock, OPTIONS)


def explain(fleet: MinerFleet, command_id: str) -> Explanation:
    found: Explanation = fleet.write(explanation.explain, fleet.claim_options, command_id)
    return found


def mark_seen(fleet: MinerFleet, device_id: int) -> None:
    fleet.database.write_now(collectors.write_last_seen, [(device_id, fleet.clock.now_ms / 1000)])


def test_command_waits_for_approval(fleet: MinerFleet) -> None:
    command = fleet.create("ada", command_type="DEVICE_REBOOT")
    found = explain(fleet, command.command_id)
    assert (found.waiting_for, found.status, found.approval_needed) == ("approval", "pending_approval", True)
    assert found.sentence == (
        f"It waits for approval by an operator other than ada, and expires at {at(3600)} without it."
    )
    fleet.write(approval.approve, command.command_id, "bob")
    assert explain(fleet, command.command_id).waiting_for == "no_collector"


def test_command_in_a_zone_without_collector(fleet: MinerFleet) -> None:
    command = fleet.create()
    east = fleet.add_collector("east", fleet.east)
    found = explain(fleet, command.command_id)
    assert found.waiting_for == "no_collector"
    assert found.sentence == f"Site {fleet.site_id} has no collector that serves zone {fleet.default_zone}."
    revoked = fleet.add_collector("revoked")
    fleet.write(collectors.revoke, revoked.id, "tests")
    assert explain(fleet, command.command_id).waiting_for == "no_collector"
    in_east = fleet.create(command_type="HASHING_DISABLE", miner_id=fleet.east_miner)
    mark_seen(fleet, east.id)
    assert explain(fleet, in_east.command_id).waiting_for == "poll"


def test_ready_command_waits_for_an_offline_collector(fleet: MinerFleet) -> None:
    collector = fleet.add_collector()
    command = fleet.create()
    found = explain(fleet, command.command_id)
    assert (found.waiting_for, found.collector_last_seen_at) == ("collector", None)
    assert found.sentence == "It is ready, but no collector of the site has ever called."
    mark_seen(fleet, collector.id)
    fleet.clock.advance(120)
    assert explain(fleet, command.command_id).waiting_for == "poll"
    fleet.clock.advance(1)
    found = explain(fleet, command.command_id)
    assert (found.waiting_for, found.collector_last_seen_at) == ("collector", at(0))
    assert found.sentence == f"It is ready, but no collector of the site has been seen since {at(0)}."


def test_ready_command_waits_for_a_poll_behind_others(fleet: MinerFleet) -> None:
    collector = fleet.add_collector()
    mark_seen(fleet, collector.id)
    low = fleet.create()
    fleet.create(priority=5)
    fleet.create(priority=1)
    found = explain(fleet, low.command_id)
    assert (found.waiting_for, found.ahead) == ("poll", 2)
    assert found.sentence == "It is ready: it goes out with one of the next polls, 2 before it."


def test_command_waits_for_the_rate_window(fleet: MinerFleet) -> None:
    collector = fleet.add_collector()
    first, second = fleet.create(), fleet.create()
    fleet.clock.advance(0.5)
    assert fleet.claim(collector) == [first.command_id]
    found = explain(fleet, second.command_id)
    assert (found.waiting_for, found.until) == ("rate_window", at(100.5))
    assert (found.rate_limit, found.rate_window_sec, found.rate_window_frees_at) == (1, 100, at(100.5))
    assert f"the next can be at {at(100.5)}" in found.sentence
    fleet.clock.advance(100)
    mark_seen(fleet, collector.id)
    assert explain(fleet, second.command_id).waiting_for == "poll"


def test_command_waits_for_its_lease_owner_and_then_for_its_back_off(fleet: MinerFleet) -> None:
    collector = fleet.add_collector("roof")
    command = fleet.create()
    fleet.claim(collector)
    found = explain(fleet, command.command_id)
    assert (found.waiting_for, found.status, found.until) == ("lease", "dispatched", at(60))
    assert (found.lease_owner, found.lease_owner_name, found.lease_until) == (collector.id, "roof", at(60))
    assert found.sentence == (
        f"Collector {collector.id} (roof) holds it, attempt 1, and has until {at(60)} to acknowledge it."
    )
    # The site was not settled since the lease expired: the explanation settles it.
    fleet.clock.advance(61)
    found = explain(fleet, command.command_id)
    assert (found.waiting_for, found.status, found.until) == ("back_off", "pending", at(90))
    assert (found.attempt, found.retry_count, found.max_retries, found.next_attempt_at) == (1, 1, 3, at(90))
    assert "1 of 3 retries used" in found.sentence


def test_expired_command(fleet: MinerFleet) -> None:
    command = fleet.create(ttl_sec=10)
    fleet.clock.advance(10)
    found = explain(fleet, command.command_id)
    assert (found.waiting_for, found.status, found.until) == ("expired", "expired", None)
    assert found.sentence == f"It expired at {at(10)}: it is not dispatched any more."


def test_finished_command_waits_for_nothing(fleet: MinerFleet) -> None:
    command = fleet.create()
    fleet.write(cancellation.cancel, command.command_id, "ada")
    found = explain(fleet, command.command_id)
    assert (found.waiting_for, found.result_code) == ("finished", "CANCELLED")
    assert found.sentence == f"It waits for nothing: it has ended cancelled at {at(0)}."
    old = fleet.create()
    new = fleet.create(supersedes=old.command_id)
    found = explain(fleet, old.command_id)
    assert found.superseded_by == new.command_id
    assert f"replaced by {new.command_id}" in found.sentence


def test_missing_command_is_not_found(fleet: MinerFleet) -> None:
    with pytest.raises(CommandNotFound):
        explain(fleet, "cmd_none")
