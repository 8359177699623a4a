import pytest

from restante.commands.errors import CommandFinished, CommandNotFound
from restante.commands.lifecycle import cancellation
from restante.commands.lifecycle.approval import ApprovalRules
from restante.database.database import Database
from tests.commands.operator_fixture import MinerFleet, creation_options
from tests.conftest import ManualClock


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    return MinerFleet(database, clock, creation_options(approval=ApprovalRules(frozenset({"HASHING_DISABLE"}))))


def test_cancelled_command_is_not_dispatched(fleet: MinerFleet) -> None:
    command = fleet.create()
    fleet.commit_events.clear()
    fleet.write(cancellation.cancel, command.command_id, "boss", "changed my mind")
    view = fleet.show(command.command_id)
    assert (view.status, view.result_code, view.result_message) == ("cancelled", "CANCELLED", "changed my mind")
    assert view.finished_at is not None
    assert fleet.claim(fleet.add_collector()) == []
    assert fleet.changed_sites() == [fleet.site_id]


def test_leased_command_can_be_cancelled_and_keeps_its_lease_owner(fleet: MinerFleet) -> None:
    collector = fleet.add_collector()
    command = fleet.create()
    fleet.claim(collector)
    fleet.write(cancellation.cancel, command.command_id, "boss")
    view = fleet.show(command.command_id)
    assert (view.status, view.lease_owner, view.lease_until) == ("cancelled", collector.id, None)
    assert fleet.events(command.command_id)[-1] == ("boss", "command.cancelled", "dispatched", "cancelled")
    fleet.clock.advance(600)
    assert fleet.claim(collector) == []


def test_command_that_waits_for_approval_can_be_cancelled(fleet: MinerFleet) -> None:
    command = fleet.create(command_type="HASHING_DISABLE")
    fleet.write(cancellation.cancel, command.command_id, "maker")
    assert fleet.events(command.command_id)[-1] == ("maker", "command.cancelled", "pending_approval", "cancelled")


def test_ended_or_missing_command_cannot_be_cancelled(fleet: MinerFleet) -> None:
    command = fleet.create()
    fleet.write(cancellation.cancel, command.command_id, "boss")
    before = fleet.count("command_audit")
    with pytest.raises(CommandFinished) as refused:
        fleet.write(cancellation.cancel, command.command_id, "boss")
    assert refused.value.fields == {"command_status": "cancelled"}
    with pytest.raises(CommandNotFound):
        fleet.write(cancellation.cancel, "cmd_none", "boss")
    assert fleet.count("command_audit") == before
