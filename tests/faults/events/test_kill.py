"""Servers are killed repeatedly with SIGKILL while clients poll: an acknowledged event is never delivered again, every
other event is, always with the same bytes, and nothing is lost. The same with two nodes on one PostgreSQL, killed in
turn; RESTANTE_FAULT_KILLS sets how often, because `make test` has time for only a few kills.

The checker is tested too: it must find the bugs that are planted into other builds.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.faults.deployments import TwoNodes
from tests.faults.events.campaign import FLAGS, EventsCampaign, Plan, Report
from tests.faults.nodes.cluster import running_cluster

pytestmark = pytest.mark.slow

KILLS = 20
NODE_KILLS = int(os.environ.get("RESTANTE_FAULT_KILLS", "4"))


def test_kills_lose_no_event_and_no_acknowledgement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = EventsCampaign(tmp_path, Plan(seed=1, kills=KILLS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    assert_coverage(report)


def test_kills_of_two_nodes_in_turn_lose_no_event_and_no_acknowledgement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_cluster(tmp_path) as cluster:
        # More events per transaction, because commits take longer: clients must have ACKs to send at every kill.
        plan = Plan(seed=3, kills=NODE_KILLS, at_once=(5, 10, 20))
        report = EventsCampaign(tmp_path, plan, TwoNodes(cluster, *FLAGS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\nTwo nodes: {report}\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    if NODE_KILLS >= KILLS:
        assert_coverage(report)
    assert report.verdict.published > 50
    assert report.verdict.acknowledged > 20


def assert_coverage(report: Report) -> None:
    """Everything that the checker looks for has happened often enough."""
    verdict = report.verdict
    assert report.kills >= 20
    assert verdict.published > 300
    assert verdict.acknowledged > 200
    assert verdict.errored > 10
    assert verdict.repeated > 50
    assert verdict.without_response > 10


def run_with_bug(folder: Path, bug: str, self_kills: int = 0) -> Report:
    plan = Plan(seed=2, kills=self_kills, clients=4, uptime_seconds=(0, 0.5))
    command = (sys.executable, "-m", "tests.faults.events.planted_bugs", bug)
    return EventsCampaign(folder, plan).run_with_self_kills((*command, "crash"), (*command, "survive"))


def test_bug_responding_before_the_commit_is_found(tmp_path: Path) -> None:
    found = run_with_bug(tmp_path, "respond_before_commit", 1).verdict.found
    assert found["redelivered"] or found["ack_lost"]


def test_bug_choosing_before_acknowledging_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "choose_before_acknowledging").verdict.found["redelivered"]


def test_bug_acknowledging_on_delivery_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "acknowledge_on_delivery").verdict.found["unsolicited"]


def test_bug_changing_tokens_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "change_token_each_time").verdict.found["token_changed"]


def test_bug_delivering_newest_first_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "deliver_newest_first").verdict.found["out_of_order"]


def test_bug_ignoring_errors_is_found(tmp_path: Path) -> None:
    found = run_with_bug(tmp_path, "ignore_errors").verdict.found
    assert found["redelivered"] or found["ack_lost"]
