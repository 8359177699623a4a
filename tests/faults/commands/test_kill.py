"""Servers are killed repeatedly with SIGKILL while collectors work: each command has one holder at a time, an accepted
ACK stays accepted, and late ACKs are refused and audited. The same with two nodes on one PostgreSQL, killed in turn;
RESTANTE_FAULT_KILLS sets how often, because `make test` has time for only a few kills.

The checker is tested too: it must find the bugs that are planted into other builds.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.faults.commands.campaign import FLAGS, CommandsCampaign, Plan, Report
from tests.faults.deployments import TwoNodes
from tests.faults.nodes.cluster import running_cluster

pytestmark = pytest.mark.slow

KILLS = 20
NODE_KILLS = int(os.environ.get("RESTANTE_FAULT_KILLS", "4"))


def test_kills_leave_one_holder_and_every_ack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = CommandsCampaign(tmp_path, Plan(seed=1, kills=KILLS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    assert report.kills >= 20
    assert_coverage(report)


def test_kills_of_two_nodes_in_turn_leave_one_holder_and_every_ack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_cluster(tmp_path) as cluster:
        plan = Plan(seed=3, kills=NODE_KILLS)
        report = CommandsCampaign(tmp_path, plan, TwoNodes(cluster, *FLAGS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\nTwo nodes: {report}\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    if NODE_KILLS >= KILLS:
        assert_coverage(report)
    assert report.verdict.created > 50
    assert report.verdict.acks["accepted"] > 20
    assert report.verdict.acks["no response"] > 0


def assert_coverage(report: Report) -> None:
    """Everything that the checker looks for has happened often enough."""
    verdict = report.verdict
    assert verdict.created > 300
    assert verdict.highest_attempt >= 3
    assert report.pauses > 3
    for outcome in ("accepted", "replayed", "no response", "late"):
        assert verdict.acks[outcome] > 10, outcome
    for outcome in ("refused 409 ACK_NOT_LEASE_OWNER", "refused 401 NONCE_MISMATCH", "refused 409 COMMAND_FINISHED"):
        assert verdict.acks[outcome] > 0, outcome
    assert verdict.decisions.keys() == {"approved", "denied", "cancelled"}
    assert verdict.ends.keys() == {"succeeded", "failed", "expired", "cancelled"}


def run_with_bug(folder: Path, bug: str, self_kills: int = 0) -> Report:
    plan = Plan(seed=2, kills=self_kills, sharing=2, alone=2, processes=0, uptime_seconds=(0, 0.5))
    command = (sys.executable, "-m", "tests.faults.commands.planted_bugs", bug)
    return CommandsCampaign(folder, plan).run_with_self_kills((*command, "crash"), (*command, "survive"))


def test_bug_accepting_acks_without_lease_check_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "accept_without_lease_check").verdict.found["stale_accepted"]


def test_bug_accepting_acks_of_any_attempt_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "accept_any_attempt").verdict.found["stale_accepted"]


def test_bug_responding_before_the_commit_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "respond_before_commit", 1).verdict.found["lost_acks"]


def test_bug_dispatching_without_writing_the_lease_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "lease_not_written").verdict.found["held_twice"]


def test_bug_not_auditing_refusals_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "refusals_not_audited").verdict.found["unaudited"]


def test_bug_auditing_in_another_transaction_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "audit_in_another_transaction", 1).verdict.found["lost_acks"]
