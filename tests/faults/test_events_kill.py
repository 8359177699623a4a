"""The server is killed with SIGKILL again and again while clients poll and acknowledge: what was acknowledged never
comes back, what was not always does, with the same bytes, and nothing is lost. So it is with two nodes on one
PostgreSQL, killed in turn; how often is set by RESTANTE_FAULT_KILLS, as `make test` has time for a few.

And the checker that says so is itself put to the test: on builds with a fault in them it must find the fault.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.faults.events_campaign import FLAGS, EventsCampaign, Plan, Report
from tests.faults.nodes_cluster import cluster
from tests.faults.places import TwoNodes

pytestmark = pytest.mark.slow

KILLS = 20
NODE_KILLS = int(os.environ.get("RESTANTE_FAULT_KILLS", "4"))


def test_kills_leave_every_event_and_every_acknowledgement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = EventsCampaign(tmp_path, Plan(seed=1, kills=KILLS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
    assert report.surprises == []
    assert report.verdict.violations == []
    assert_it_was_a_trial(report)


def test_kills_of_two_nodes_in_turn_leave_every_event_and_every_acknowledgement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(tmp_path) as nodes:
        # More at once, as a commit takes longer there: clients are to have something to say whenever a node dies.
        plan = Plan(seed=3, kills=NODE_KILLS, at_once=(5, 10, 20))
        report = EventsCampaign(tmp_path, plan, TwoNodes(nodes, *FLAGS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\nTwo nodes: {report}\n")
    assert report.surprises == []
    assert report.verdict.violations == []
    if NODE_KILLS >= KILLS:
        assert_it_was_a_trial(report)
    assert report.verdict.published > 50
    assert report.verdict.acknowledged > 20


def assert_it_was_a_trial(report: Report) -> None:
    """Everything that the checker looks for has had its chance to happen."""
    verdict = report.verdict
    assert report.kills >= 20
    assert verdict.published > 300
    assert verdict.acknowledged > 200
    assert verdict.errored > 10
    assert verdict.redelivered > 50
    assert verdict.unanswered > 10


def sabotaged(folder: Path, fault: str, suicides: int = 0) -> Report:
    plan = Plan(seed=2, kills=suicides, clients=4, life_seconds=(0, 0.5))
    command = (sys.executable, "-m", "tests.faults.events_sabotage", fault)
    return EventsCampaign(folder, plan).run_with_suicides((*command, "die"), (*command, "live"))


def test_answering_before_the_commit_is_found(tmp_path: Path) -> None:
    found = sabotaged(tmp_path, "answer_before_commit", 1).verdict.found
    assert found["returned"] or found["unsaid"]


def test_choosing_before_acknowledging_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "acknowledged_after_choosing").verdict.found["returned"]


def test_taking_delivery_for_acknowledgement_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "acknowledged_by_delivery").verdict.found["unasked"]


def test_tokens_that_change_are_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "signed_each_time").verdict.found["changed"]


def test_the_newest_first_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "newest_first").verdict.found["overtaken"]


def test_errors_that_are_passed_over_are_found(tmp_path: Path) -> None:
    found = sabotaged(tmp_path, "errors_forgotten").verdict.found
    assert found["returned"] or found["unsaid"]
