from typing import Any

import msgspec
import pytest

from restante.commands.acks import acks
from restante.commands.acks.acks import AckRequest, AckResult, CommandRow
from restante.commands.component import CommandsOptions
from restante.commands.dispatch.claims import DispatchedCommand
from restante.commands.dispatch.settlement import CommandFailed
from restante.commands.errors import CommandFinished, error_code
from restante.commands.lifecycle import listing
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.core.commands.canonical import reference_json, signature_of
from restante.core.errors import RestanteError
from restante.database.connection import Row
from restante.database.database import Database
from restante.database.queries import number_parameters
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import Collector, CommandsHarness, ack_of
from tests.conftest import START_MS, ManualClock


class LeasedCommand:
    """A command that a collector has leased, with its site."""

    def __init__(self, database: Database, options: CommandsOptions | None = None, **fields: Any) -> None:
        self.harness = CommandsHarness(database, options)
        self.site = self.harness.add_site()
        self.miner = self.harness.add_miner(self.site)
        self.collector = self.harness.add_collector(self.site)
        self.id = self.harness.add_command(self.site, self.miner, **fields).command_id
        self.dispatched = self.claim()

    def claim(self, collector: Collector | None = None) -> DispatchedCommand:
        return self.harness.claim((collector or self.collector).caller).commands[0]

    def ack(self, status: str, collector: Collector | None = None, **body: Any) -> AckResult | RestanteError:
        return self.harness.ack((collector or self.collector).caller, self.id, status, **body)

    def refused(self, status: str, collector: Collector | None = None, **body: Any) -> str:
        """Send an ACK that must be refused; return the error code. Only the audit trail may change."""
        before = dict(self.row)
        result = self.ack(status, collector, **body)
        assert isinstance(result, RestanteError), result
        assert dict(self.row) == before
        assert self.harness.audit(self.site)[-1] == ("ack.refused", self.id, before["status"], before["status"])
        return error_code(result)

    def accepted(self, status: str, **body: Any) -> dict[str, Any]:
        result = self.ack(status, **body)
        assert isinstance(result, AckResult), result
        response = result.response
        assert (response.status, response.command_id) == ("ok", self.id)
        return {
            name: getattr(response, name)
            for name in ("command_status", "replayed", "code", "will_retry", "next_attempt_at")
            if getattr(response, name) is not None
        }

    @property
    def row(self) -> Row:
        return self.harness.command(self.id)


@pytest.fixture
def leased(database: Database) -> LeasedCommand:
    return LeasedCommand(database)


def test_succeeded_ends_the_command(leased: LeasedCommand, clock: ManualClock) -> None:
    clock.advance(5)
    body = {"result_code": 0, "message": "ok", "executed_at": "2026-01-18T10:05:00Z", "before_snapshot": {"a": 1.5}}
    assert leased.accepted("succeeded", **body) == {"command_status": "succeeded", "replayed": False}
    row = leased.row
    assert (row["status"], row["result_code"], row["result_message"]) == ("succeeded", "0", "ok")
    assert (row["finished_at"], row["acked_at"], row["executed_at"]) == (clock.now_ms, clock.now_ms, 1_768_730_700_000)
    assert (row["before_snapshot"], row["after_snapshot"]) == ('{"a":1.5}', None)
    assert leased.harness.audit(leased.site)[-1] == ("command.succeeded", leased.id, "dispatched", "succeeded")


def test_failed_command_is_retried_with_back_off_and_then_ends(leased: LeasedCommand, clock: ManualClock) -> None:
    for retries, seconds in enumerate((30, 60, 120), start=1):
        response = leased.accepted("failed", message="hot")
        assert (response["command_status"], response["will_retry"]) == ("pending", True)
        row = leased.row
        assert (row["retry_count"], row["next_attempt_at"]) == (retries, clock.now_ms + seconds * 1000)
        assert (row["lease_owner"], row["lease_until"]) == (None, None)
        clock.advance(seconds)
        leased.claim()
    assert leased.accepted("failed", message="hot") == {
        "command_status": "failed",
        "replayed": False,
        "will_retry": False,
    }
    assert leased.row["finished_at"] == clock.now_ms


def test_next_attempt_time_in_the_response_is_rounded_up(database: Database, clock: ManualClock) -> None:
    leased = LeasedCommand(database)
    clock.now_ms = START_MS + 1
    assert leased.accepted("failed")["next_attempt_at"] == "2027-01-15T08:00:31Z"


def test_deferral_uses_no_retry(leased: LeasedCommand, clock: ManualClock) -> None:
    assert leased.accepted("deferred", retry_after_sec=5)["command_status"] == "pending"
    assert (leased.row["retry_count"], leased.row["next_attempt_at"]) == (0, clock.now_ms + 5000)
    clock.advance(4.999)
    assert leased.harness.claim(leased.collector.caller).commands == []
    clock.advance(0.001)
    assert leased.claim().attempt == 2


def test_rejected_command_fails_without_a_retry(leased: LeasedCommand) -> None:
    assert leased.accepted("rejected", message="no such mode") == {"command_status": "failed", "replayed": False}
    assert (leased.row["status"], leased.row["result_message"]) == ("failed", "no such mode")
    assert leased.harness.audit(leased.site)[-1] == ("command.rejected", leased.id, "dispatched", "failed")


def test_running_keeps_the_lease(leased: LeasedCommand) -> None:
    until = leased.row["lease_until"]
    assert leased.accepted("running", before_snapshot={"a": 1}) == {"command_status": "running", "replayed": False}
    assert (leased.row["lease_until"], leased.row["lease_owner"]) == (until, leased.collector.caller.device_id)
    assert leased.accepted("running", message="half")["command_status"] == "running"
    assert leased.accepted("completed")["command_status"] == "succeeded"
    assert leased.row["before_snapshot"] == '{"a":1}'


def test_requeued_command_publishes_a_commit_event(leased: LeasedCommand) -> None:
    events: list[object] = []
    leased.harness.database.on_commit(events.extend)
    leased.ack("failed")
    assert events == [CommandsChanged(leased.site)]


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [("rejected", {}, "REJECTED"), ("rejected", {"result_code": "E7"}, "E7"), ("failed", {}, "FAILED")],
)
def test_failed_command_publishes_a_commit_event_with_its_code(
    database: Database, status: str, body: dict[str, Any], code: str
) -> None:
    leased = LeasedCommand(database, max_retries=0)
    events: list[object] = []
    database.on_commit(events.extend)
    leased.ack(status, **body)
    assert events == [CommandFailed(leased.site, code)]


def test_repeated_ack_is_a_replay_and_changes_nothing(leased: LeasedCommand) -> None:
    leased.accepted("succeeded", result_code=0, message="ok")
    before, rows = dict(leased.row), leased.harness.audit(leased.site)
    assert leased.accepted("succeeded", result_code=0, message="ok") == {
        "command_status": "succeeded",
        "replayed": True,
        "code": "ACK_REPLAYED",
    }
    assert leased.accepted("completed", result_code=0, result_message="ok", nonce="whatever")["replayed"] is True
    assert dict(leased.row) == before
    assert leased.harness.audit(leased.site) == rows


def test_replayed_failure_returns_the_next_attempt_time(leased: LeasedCommand) -> None:
    first = leased.accepted("failed", message="hot")
    again = leased.accepted("failed", message="hot")
    assert (again["command_status"], again["replayed"]) == ("pending", True)
    assert again["next_attempt_at"] == first["next_attempt_at"]
    assert leased.row["retry_count"] == 1


def test_same_failure_of_the_next_attempt_is_a_new_ack(leased: LeasedCommand, clock: ManualClock) -> None:
    leased.accepted("failed", message="hot")
    clock.advance(30)
    leased.claim()
    assert leased.accepted("failed", message="hot")["replayed"] is False
    assert leased.row["retry_count"] == 2


def test_second_of_two_acks_in_one_batch_sees_the_first(leased: LeasedCommand) -> None:
    harness, caller = leased.harness, leased.collector.caller
    requests = [AckRequest(caller, leased.id, ack_of(status)) for status in ("succeeded", "succeeded", "failed")]
    results = harness.database.write_now(acks.accept_acks, harness.trail, harness.ack_options(), requests)
    assert [each.response.replayed for each in results[:2] if isinstance(each, AckResult)] == [False, True]
    assert isinstance(results[2], CommandFinished)
    assert leased.row["status"] == "succeeded"


def test_ack_of_a_finished_command_is_refused(leased: LeasedCommand) -> None:
    leased.accepted("succeeded")
    assert leased.refused("failed") == "COMMAND_FINISHED"
    error = leased.ack("failed")
    assert isinstance(error, RestanteError)
    assert vars(error)["fields"] == {"command_status": "succeeded"}


def test_ack_of_an_expired_command_is_refused(database: Database, clock: ManualClock) -> None:
    leased = LeasedCommand(database, ttl_sec=30)
    clock.advance(30)
    leased.ack("succeeded")
    assert leased.row["status"] == "expired"
    assert leased.refused("succeeded") == "COMMAND_EXPIRED"


def test_ack_of_an_unknown_command_is_refused(leased: LeasedCommand) -> None:
    error = leased.harness.ack(leased.collector.caller, "cmd_none", "succeeded")
    assert isinstance(error, RestanteError)
    assert error_code(error) == "COMMAND_NOT_FOUND"
    assert leased.harness.audit(leased.site)[-1] == ("ack.refused", None, None, None)


def test_ack_of_another_sites_command_is_denied_in_every_state(leased: LeasedCommand) -> None:
    other_sites_collector = leased.harness.add_collector(leased.harness.add_site())
    first = leased.harness.ack(other_sites_collector.caller, leased.id, "succeeded")
    leased.accepted("succeeded")
    second = leased.harness.ack(other_sites_collector.caller, leased.id, "succeeded")
    for error in (first, second):
        assert isinstance(error, RestanteError)
        assert (error_code(error), error.status) == ("ACCESS_DENIED", 403)
    assert str(first) == str(second)
    assert leased.harness.audit(other_sites_collector.caller.site_id)[-1] == ("ack.refused", None, None, None)


def test_ack_by_another_collector_is_refused(leased: LeasedCommand) -> None:
    assert leased.refused("succeeded", leased.harness.add_collector(leased.site)) == "ACK_NOT_LEASE_OWNER"


def test_ack_after_the_lease_expired_is_refused(leased: LeasedCommand, clock: ManualClock) -> None:
    clock.advance(60)
    result = leased.ack("succeeded")
    assert isinstance(result, RestanteError)
    assert error_code(result) == "ACK_NOT_LEASE_OWNER"
    assert leased.row["status"] == "pending"


def test_late_ack_by_the_previous_lease_owner_is_refused(leased: LeasedCommand, clock: ManualClock) -> None:
    clock.advance(90)
    other = leased.harness.add_collector(leased.site)
    leased.claim(other)
    assert leased.refused("succeeded", nonce=leased.dispatched.nonce) == "ACK_NOT_LEASE_OWNER"


def test_late_ack_by_the_same_collector_is_refused_by_nonce_or_attempt(
    leased: LeasedCommand, clock: ManualClock
) -> None:
    clock.advance(90)
    again = leased.claim()
    assert leased.refused("succeeded", nonce=leased.dispatched.nonce) == "NONCE_MISMATCH"
    assert leased.refused("succeeded", attempt=leased.dispatched.attempt) == "ACK_NOT_LEASE_OWNER"
    assert leased.accepted("succeeded", attempt=again.attempt, nonce=again.nonce)["command_status"] == "succeeded"


def test_nonce_is_required_only_if_configured_and_signed(database: Database) -> None:
    for is_signed, is_required, code in ((True, True, "NONCE_MISMATCH"), (False, True, None), (True, False, None)):
        leased = LeasedCommand(database, commands_options(is_signed=is_signed, is_ack_nonce_required=is_required))
        if code is None:
            leased.accepted("succeeded")
        else:
            assert leased.refused("succeeded") == code
            leased.accepted("succeeded", nonce=leased.dispatched.nonce)


def signed(secret: str, **body: Any) -> dict[str, Any]:
    status = body.pop("status", "succeeded")
    return {**body, "signature": signature_of(secret, reference_json({"status": status, **body}))}


def test_signature_of_an_ack_is_verified(leased: LeasedCommand) -> None:
    body: dict[str, Any] = {"message": "größer", "after_snapshot": {"hashrate": 100.5, "fan": [1, None]}}
    good = signed(leased.collector.secret, **body)
    assert leased.refused("succeeded", **{**good, "message": "other"}) == "SIGNATURE_INVALID"
    assert leased.refused("succeeded", **body, signature="00" * 32) == "SIGNATURE_INVALID"
    assert leased.refused("succeeded", **signed("ab" * 32, **body)) == "SIGNATURE_INVALID"
    assert leased.accepted("succeeded", **good)["command_status"] == "succeeded"


def test_ack_without_signature_is_refused_if_required(database: Database) -> None:
    leased = LeasedCommand(database, commands_options(is_ack_signature_required=True))
    for body in ({}, {"nonce": leased.dispatched.nonce}, {"signature": None}):
        assert leased.refused("succeeded", **body) == "SIGNATURE_INVALID"
    assert leased.refused("succeeded", signature="00" * 32) == "SIGNATURE_INVALID"
    assert leased.accepted("succeeded", **signed(leased.collector.secret))["command_status"] == "succeeded"


@pytest.mark.parametrize("is_signed", [True, False])
def test_audit_trail_says_whether_an_ack_was_signed(leased: LeasedCommand, is_signed: bool) -> None:
    leased.accepted("succeeded", **(signed(leased.collector.secret) if is_signed else {}))
    detail = leased.harness.database.read_now(listing.show, leased.id).history[-1].detail
    assert msgspec.json.decode(detail)["signature"] == ("valid" if is_signed else "none")


def test_nonce_is_checked_before_the_signature(leased: LeasedCommand) -> None:
    assert leased.refused("succeeded", nonce="wrong", signature="00" * 32) == "NONCE_MISMATCH"


def test_columns_of_the_query_are_the_fields_of_a_command_row(leased: LeasedCommand) -> None:
    (row,) = leased.harness.database.read_now(lambda conn: conn.all(acks.SQL.commands, command_ids=f'["{leased.id}"]'))
    assert tuple(row.keys()) == CommandRow.__struct_fields__


def test_rows_of_changes_have_the_order_of_the_query_parameters() -> None:
    parameters = {
        name: number_parameters(getattr(acks.SQL, name).text, "?")[1] for name in ("keep_running", "requeue", "finish")
    }
    shared = acks.AckColumns._fields
    assert parameters == {
        "keep_running": (*shared, "id"),
        "requeue": (*shared, "retry_count", "next_attempt_at", "id"),
        "finish": (*shared, "id"),
    }
