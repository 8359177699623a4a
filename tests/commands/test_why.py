import pytest

from restante.commands import approval, cancelling, collectors, why
from restante.commands.approval import ApprovalRules
from restante.commands.creation import CreationOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.commands.why import Why
from restante.commands.wire import CommandNotFound, iso
from restante.database.database import Database
from tests.commands.operators import World
from tests.conftest import START_MS, ManualClock

RULES = RateRules({"HASHING_ENABLE": RateLimit(1, 100)})
OPTIONS = CreationOptions(rate_rules=RULES, approval=ApprovalRules(frozenset({"DEVICE_REBOOT"})))


def at(seconds: float) -> str:
    return iso(START_MS + int(seconds * 1000))


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock, OPTIONS)


def explain(world: World, command_id: str) -> Why:
    found: Why = world.write(why.explain, RULES, command_id)
    return found


def seen(world: World, device_id: int) -> None:
    world.database.write_now(collectors.write_last_seen, [(device_id, world.clock.now_ms / 1000)])


def test_approval(world: World) -> None:
    made = world.create("ada", command_type="DEVICE_REBOOT")
    found = explain(world, made.command_id)
    assert (found.waiting_for, found.status, found.approval_needed) == ("approval", "pending_approval", True)
    assert found.sentence == (
        f"It waits for approval by somebody other than ada, and expires at {at(3600)} without it."
    )
    world.write(approval.approve, made.command_id, "bob")
    assert explain(world, made.command_id).waiting_for == "no_collector"


def test_no_collector_serves_its_zone(world: World) -> None:
    made = world.create()
    east = world.add_collector("east", world.east)
    found = explain(world, made.command_id)
    assert found.waiting_for == "no_collector"
    assert found.sentence == f"Site {world.site_id} has no collector that serves zone {world.default_zone}."
    revoked = world.add_collector("revoked")
    world.write(collectors.revoke, revoked.id, "tests")
    assert explain(world, made.command_id).waiting_for == "no_collector"
    in_east = world.create(command_type="HASHING_DISABLE", miner_id=world.east_miner)
    seen(world, east.id)
    assert explain(world, in_east.command_id).waiting_for == "poll"


def test_a_collector_that_does_not_call(world: World) -> None:
    collector = world.add_collector()
    made = world.create()
    found = explain(world, made.command_id)
    assert (found.waiting_for, found.collector_last_seen_at) == ("collector", None)
    assert found.sentence == "It is ready, but no collector of the site has ever called."
    seen(world, collector.id)
    world.clock.advance(120)
    assert explain(world, made.command_id).waiting_for == "poll"
    world.clock.advance(1)
    found = explain(world, made.command_id)
    assert (found.waiting_for, found.collector_last_seen_at) == ("collector", at(0))
    assert found.sentence == f"It is ready, but no collector of the site has been seen since {at(0)}."


def test_its_turn_in_the_next_polls(world: World) -> None:
    collector = world.add_collector()
    seen(world, collector.id)
    low = world.create()
    world.create(priority=5)
    world.create(priority=1)
    found = explain(world, low.command_id)
    assert (found.waiting_for, found.ahead) == ("poll", 2)
    assert found.sentence == "It is ready: it goes out with one of the next polls, 2 before it."


def test_the_rate_window(world: World) -> None:
    collector = world.add_collector()
    first, second = world.create(), world.create()
    world.clock.advance(0.5)
    assert world.claim(collector) == [first.command_id]
    found = explain(world, second.command_id)
    assert (found.waiting_for, found.until) == ("rate_window", at(101))
    assert (found.rate_limit, found.rate_window_sec, found.rate_window_frees_at) == (1, 100, at(101))
    assert f"the next can be at {at(101)}" in found.sentence
    world.clock.advance(100)
    seen(world, collector.id)
    assert explain(world, second.command_id).waiting_for == "poll"


def test_a_lease_and_then_the_back_off(world: World) -> None:
    collector = world.add_collector("roof")
    made = world.create()
    world.claim(collector)
    found = explain(world, made.command_id)
    assert (found.waiting_for, found.status, found.until) == ("lease", "dispatched", at(60))
    assert (found.lease_owner, found.lease_owner_name, found.lease_until) == (collector.id, "roof", at(60))
    assert found.sentence == (
        f"Collector {collector.id} (roof) holds it, attempt 1, and has until {at(60)} to acknowledge it."
    )
    # Nobody has looked at it since the lease ran out: the question itself brings it up to the present.
    world.clock.advance(61)
    found = explain(world, made.command_id)
    assert (found.waiting_for, found.status, found.until) == ("back_off", "pending", at(90))
    assert (found.attempt, found.retry_count, found.max_retries, found.next_attempt_at) == (1, 1, 3, at(90))
    assert "1 of 3 retries used" in found.sentence


def test_expired(world: World) -> None:
    made = world.create(ttl_sec=10)
    world.clock.advance(10)
    found = explain(world, made.command_id)
    assert (found.waiting_for, found.status, found.until) == ("expired", "expired", None)
    assert found.sentence == f"It expired at {at(10)}: it is not handed out any more."


def test_finished(world: World) -> None:
    made = world.create()
    world.write(cancelling.cancel, made.command_id, "ada")
    found = explain(world, made.command_id)
    assert (found.waiting_for, found.result_code) == ("finished", "CANCELLED")
    assert found.sentence == f"It waits for nothing: it has ended cancelled at {at(0)}."
    old = world.create()
    new = world.create(supersedes=old.command_id)
    found = explain(world, old.command_id)
    assert found.superseded_by == new.command_id
    assert f"replaced by {new.command_id}" in found.sentence


def test_there_must_be_such_a_command(world: World) -> None:
    with pytest.raises(CommandNotFound):
        explain(world, "cmd_none")
