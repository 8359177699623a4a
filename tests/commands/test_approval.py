import pytest

from restante.commands import approval, cancelling
from restante.commands.approval import ApprovalRules
from restante.commands.creation import CreationOptions
from restante.commands.wire import CommandFinished, CommandGone, CommandNotFound, DuplicateActive
from restante.core.command_states import NoSuchTransition
from restante.core.errors import BadInput, NotAllowed
from restante.database.database import Database
from tests.commands.operators import World
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    """Where enabling needs approval, and disabling does not."""
    return World(database, clock, CreationOptions(approval=ApprovalRules(frozenset({"HASHING_ENABLE"}))))


@pytest.mark.parametrize(
    ("rules", "needed"),
    [
        (ApprovalRules(), [False, False, False]),
        (ApprovalRules(frozenset({"A"})), [True, True, False]),
        (ApprovalRules(miners_from=10), [False, True, True]),
        (ApprovalRules(frozenset({"A"}), 1), [True, True, True]),
    ],
)
def test_which_commands_need_approval(rules: ApprovalRules, needed: list[bool]) -> None:
    assert [rules.is_needed(kind, count) for kind, count in (("A", 1), ("A", 10), ("B", 10))] == needed
    assert not ApprovalRules(miners_from=10).is_needed("B", 9)


def test_a_command_is_handed_out_once_somebody_else_approved_it(world: World) -> None:
    collector = world.add_collector()
    made = world.create("maker")
    assert world.claim(collector) == []
    world.announced.clear()
    world.write(approval.approve, made.command_id, "boss")
    shown = world.show(made.command_id)
    assert (shown.status, shown.approved_by, shown.approved_at) == ("pending", "boss", made.created_at)
    assert world.sites_told() == [world.site_id]
    assert world.claim(collector) == [made.command_id]
    assert world.events(made.command_id)[1] == ("boss", "command.approved", "pending_approval", "pending")


def test_nobody_approves_their_own(world: World) -> None:
    made = world.create("maker")
    with pytest.raises(NotAllowed):
        world.write(approval.approve, made.command_id, "maker")
    assert world.show(made.command_id).status == "pending_approval"


def test_a_denied_command_ends(world: World) -> None:
    made = world.create("maker")
    world.write(approval.deny, made.command_id, "boss", "not today")
    shown = world.show(made.command_id)
    assert (shown.status, shown.result_code, shown.result_message) == ("cancelled", "DENIED", "not today")
    assert world.events(made.command_id)[1] == ("boss", "command.denied", "pending_approval", "cancelled")
    for decide in (approval.approve, approval.deny):
        with pytest.raises(CommandFinished):
            world.write(decide, made.command_id, "boss")


def test_only_what_waits_for_it_is_approved_or_denied(world: World) -> None:
    made = world.create(command_type="HASHING_DISABLE")
    for decide in (approval.approve, approval.deny):
        with pytest.raises(NoSuchTransition):
            world.write(decide, made.command_id, "boss")
        with pytest.raises(CommandNotFound):
            world.write(decide, "cmd_none", "boss")
    assert world.show(made.command_id).status == "pending"


def test_what_has_expired_is_not_approved(world: World) -> None:
    made = world.create(ttl_sec=60)
    world.clock.now_ms = START_MS + 60_000
    with pytest.raises(CommandGone):
        world.write(approval.approve, made.command_id, "boss")


def test_one_that_would_be_a_second_active_one_is_not_approved(world: World) -> None:
    waiting = world.create(dedupe_key="k")
    active = world.create(dedupe_key="k", command_type="HASHING_DISABLE")
    with pytest.raises(DuplicateActive) as refused:
        world.write(approval.approve, waiting.command_id, "boss")
    assert refused.value.fields == {"command_id": active.command_id}
    world.write(cancelling.cancel, active.command_id, "maker")
    world.write(approval.approve, waiting.command_id, "boss")
    assert world.show(waiting.command_id).status == "pending"


def test_a_reason_has_a_length(world: World) -> None:
    made = world.create()
    for reason in ("", "x" * 501):
        with pytest.raises(BadInput):
            world.write(approval.deny, made.command_id, "boss", reason)
