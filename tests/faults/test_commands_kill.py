"""The server is killed with SIGKILL again and again while collectors work; each command has one holder at a time, what
was acknowledged stays so, and what came too late is refused and recorded. So it is with two nodes on one PostgreSQL,
killed in turn; how often is set by RESTANTE_FAULT_KILLS, as `make test` has time for a few.

And the checker that says so is itself put to the test: on builds with a fault in them it must find the fault.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.faults.commands_campaign import FLAGS, CommandsCampaign, Plan, Report
from tests.faults.nodes_cluster import cluster
from tests.faults.places import TwoNodes

pytestmark = pytest.mark.slow

KILLS = 20
NODE_KILLS = int(os.environ.get("RESTANTE_FAULT_KILLS", "4"))


def test_kills_leave_one_holder_and_every_ack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = CommandsCampaign(tmp_path, Plan(seed=1, kills=KILLS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
    assert report.surprises == []
    assert report.verdict.violations == []
    assert report.kills >= 20
    assert_it_was_a_trial(report)


def test_kills_of_two_nodes_in_turn_leave_one_holder_and_every_ack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(tmp_path) as nodes:
        plan = Plan(seed=3, kills=NODE_KILLS)
        report = CommandsCampaign(tmp_path, plan, TwoNodes(nodes, *FLAGS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\nTwo nodes: {report}\n")
    assert report.surprises == []
    assert report.verdict.violations == []
    if NODE_KILLS >= KILLS:
        assert_it_was_a_trial(report)
    assert report.verdict.made > 50
    assert report.verdict.acks["taken"] > 20
    assert report.verdict.acks["unanswered"] > 0


def assert_it_was_a_trial(report: Report) -> None:
    """Everything that the checker looks for has had its chance to happen."""
    verdict = report.verdict
    assert verdict.made > 300
    assert verdict.highest_attempt >= 3
    assert report.stops > 3
    for fate in ("taken", "replayed", "unanswered", "late"):
        assert verdict.acks[fate] > 10, fate
    for fate in ("refused 409 ACK_NOT_LEASE_OWNER", "refused 401 NONCE_MISMATCH", "refused 409 COMMAND_FINISHED"):
        assert verdict.acks[fate] > 0, fate
    assert verdict.decisions.keys() == {"approved", "denied", "cancelled"}
    assert verdict.ends.keys() == {"succeeded", "failed", "expired", "cancelled"}


def sabotaged(folder: Path, fault: str, suicides: int = 0) -> Report:
    plan = Plan(seed=2, kills=suicides, sharing=2, alone=2, processes=0, life_seconds=(0, 0.5))
    command = (sys.executable, "-m", "tests.faults.commands_sabotage", fault)
    return CommandsCampaign(folder, plan).run_with_suicides((*command, "die"), (*command, "live"))


def test_taking_acks_without_a_look_at_the_lease_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "lease_unchecked").verdict.found["stale_taken"]


def test_taking_acks_of_another_attempt_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "attempt_unchecked").verdict.found["stale_taken"]


def test_answering_before_the_commit_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "answer_before_commit", 1).verdict.found["lost_acks"]


def test_handing_out_without_marking_the_lease_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "lease_unmarked").verdict.found["held_twice"]


def test_refusals_that_are_not_recorded_are_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "refusals_unrecorded").verdict.found["unrecorded"]


def test_a_record_outside_the_acks_transaction_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "audit_apart", 1).verdict.found["lost_acks"]
