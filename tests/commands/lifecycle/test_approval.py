import pytest

from restante.commands.errors import CommandFinished, CommandGone, CommandNotFound, DuplicateActive
from restante.commands.lifecycle import approval, cancellation
from restante.commands.lifecycle.approval import ApprovalRules
from restante.core.commands.command_states import NoSuchTransition
from restante.core.errors import BadInput, NotAllowed
from restante.database.database import Database
from tests.commands.operator_fixture import MinerFleet, creation_options
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    """HASHING_ENABLE needs approval, HASHING_DISABLE does not."""
    return MinerFleet(database, clock, creation_options(approval=ApprovalRules(frozenset({"HASHING_ENABLE"}))))


@pytest.mark.parametrize(
    ("rules", "needed"),
    [
        (ApprovalRules(), [False, False, False]),
        (ApprovalRules(frozenset({"A"})), [True, True, False]),
        (ApprovalRules(miners_from=10), [False, True, True]),
        (ApprovalRules(frozenset({"A"}), 1), [True, True, True]),
    ],
)
def test_commands_need_approval_by_type_or_number_of_miners(rules: ApprovalRules, needed: list[bool]) -> None:
    assert [rules.is_needed(command_type, count) for command_type, count in (("A", 1), ("A", 10), ("B", 10))] == needed
    assert not ApprovalRules(miners_from=10).is_needed("B", 9)


def test_command_is_dispatched_after_another_operator_approved_it(fleet: MinerFleet) -> None:
    collector = fleet.add_collector()
    command = fleet.create("maker")
    assert fleet.claim(collector) == []
    fleet.commit_events.clear()
    fleet.write(approval.approve, command.command_id, "boss")
    view = fleet.show(command.command_id)
    assert (view.status, view.approved_by, view.approved_at) == ("pending", "boss", command.created_at)
    assert fleet.changed_sites() == [fleet.site_id]
    assert fleet.claim(collector) == [command.command_id]
    assert fleet.events(command.command_id)[1] == ("boss", "command.approved", "pending_approval", "pending")


def test_creator_cannot_approve_own_command(fleet: MinerFleet) -> None:
    command = fleet.create("maker")
    with pytest.raises(NotAllowed):
        fleet.write(approval.approve, command.command_id, "maker")
    assert fleet.show(command.command_id).status == "pending_approval"


def test_denied_command_ends(fleet: MinerFleet) -> None:
    command = fleet.create("maker")
    fleet.write(approval.deny, command.command_id, "boss", "not today")
    view = fleet.show(command.command_id)
    assert (view.status, view.result_code, view.result_message) == ("cancelled", "DENIED", "not today")
    assert fleet.events(command.command_id)[1] == ("boss", "command.denied", "pending_approval", "cancelled")
    for decide in (approval.approve, approval.deny):
        with pytest.raises(CommandFinished):
            fleet.write(decide, command.command_id, "boss")


def test_command_that_needs_no_approval_cannot_be_approved_or_denied(fleet: MinerFleet) -> None:
    command = fleet.create(command_type="HASHING_DISABLE")
    for decide in (approval.approve, approval.deny):
        with pytest.raises(NoSuchTransition):
            fleet.write(decide, command.command_id, "boss")
        with pytest.raises(CommandNotFound):
            fleet.write(decide, "cmd_none", "boss")
    assert fleet.show(command.command_id).status == "pending"


def test_expired_command_cannot_be_approved(fleet: MinerFleet) -> None:
    command = fleet.create(ttl_sec=60)
    fleet.clock.now_ms = START_MS + 60_000
    with pytest.raises(CommandGone):
        fleet.write(approval.approve, command.command_id, "boss")


def test_approval_is_refused_while_another_active_command_has_the_dedupe_key(fleet: MinerFleet) -> None:
    waiting = fleet.create(dedupe_key="k")
    active = fleet.create(dedupe_key="k", command_type="HASHING_DISABLE")
    with pytest.raises(DuplicateActive) as refused:
        fleet.write(approval.approve, waiting.command_id, "boss")
    assert refused.value.fields == {"command_id": active.command_id}
    fleet.write(cancellation.cancel, active.command_id, "maker")
    fleet.write(approval.approve, waiting.command_id, "boss")
    assert fleet.show(waiting.command_id).status == "pending"


def test_reason_must_have_1_to_500_characters(fleet: MinerFleet) -> None:
    command = fleet.create()
    for reason in ("", "x" * 501):
        with pytest.raises(BadInput):
            fleet.write(approval.deny, command.command_id, "boss", reason)
