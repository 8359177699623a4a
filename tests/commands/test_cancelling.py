import pytest

from restante.commands import cancelling
from restante.commands.approval import ApprovalRules
from restante.commands.creation import CreationOptions
from restante.commands.wire import CommandFinished, CommandNotFound
from restante.database.database import Database
from tests.commands.operators import World
from tests.conftest import ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock, CreationOptions(approval=ApprovalRules(frozenset({"HASHING_DISABLE"}))))


def test_a_cancelled_command_is_not_handed_out(world: World) -> None:
    made = world.create()
    world.announced.clear()
    world.write(cancelling.cancel, made.command_id, "boss", "changed my mind")
    shown = world.show(made.command_id)
    assert (shown.status, shown.result_code, shown.result_message) == ("cancelled", "CANCELLED", "changed my mind")
    assert shown.finished_at is not None
    assert world.claim(world.add_collector()) == []
    assert world.sites_told() == [world.site_id]


def test_one_that_is_held_can_be_cancelled_and_says_who_held_it(world: World) -> None:
    collector = world.add_collector()
    made = world.create()
    world.claim(collector)
    world.write(cancelling.cancel, made.command_id, "boss")
    shown = world.show(made.command_id)
    assert (shown.status, shown.lease_owner, shown.lease_until) == ("cancelled", collector.id, None)
    assert world.events(made.command_id)[-1] == ("boss", "command.cancelled", "dispatched", "cancelled")
    world.clock.advance(600)
    assert world.claim(collector) == []


def test_one_that_waits_for_approval_can_be_cancelled(world: World) -> None:
    made = world.create(command_type="HASHING_DISABLE")
    world.write(cancelling.cancel, made.command_id, "maker")
    assert world.events(made.command_id)[-1] == ("maker", "command.cancelled", "pending_approval", "cancelled")


def test_an_ended_or_absent_one_cannot(world: World) -> None:
    made = world.create()
    world.write(cancelling.cancel, made.command_id, "boss")
    before = world.count("command_audit")
    with pytest.raises(CommandFinished) as refused:
        world.write(cancelling.cancel, made.command_id, "boss")
    assert refused.value.fields == {"command_status": "cancelled"}
    with pytest.raises(CommandNotFound):
        world.write(cancelling.cancel, "cmd_none", "boss")
    assert world.count("command_audit") == before
