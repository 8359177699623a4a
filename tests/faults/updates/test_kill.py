"""The server is killed repeatedly with SIGKILL under load: no acknowledged change is lost or delivered twice.

The checker is tested too: it must find the bugs that are planted into other builds.
"""

import sys
from pathlib import Path

import pytest

from tests.faults.updates.campaign import Plan, Report, UpdatesCampaign

pytestmark = pytest.mark.slow

KILLS = 22
RECOVERED_WITHIN_SECONDS = 15.0
# Far less than the lease on the rows that the killed server had claimed.
DRAINED_WITHIN_SECONDS = 10.0


def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = UpdatesCampaign(tmp_path, Plan(seed=1, kills=KILLS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    assert report.kills >= 20
    assert report.verdict.acknowledged > 300
    assert max(report.recovery_seconds) < RECOVERED_WITHIN_SECONDS
    assert report.drained_seconds < DRAINED_WITHIN_SECONDS


def test_kills_lose_nothing_with_direct_signals(tmp_path: Path) -> None:
    plan = Plan(seed=3, kills=5, devices=8, emitters=4)
    report = UpdatesCampaign(tmp_path, plan, "--direct-signals").run_with_kills()
    assert report.unexpected == []
    assert report.verdict.violations == []


def test_rows_of_a_killed_server_do_not_wait_for_their_lease(tmp_path: Path) -> None:
    report = run_with_bug(tmp_path, "crash_between_claim_and_delivery", 2)
    assert report.unexpected == []
    assert report.verdict.violations == []
    assert report.drained_seconds < DRAINED_WITHIN_SECONDS


def run_with_bug(folder: Path, bug: str, self_kills: int) -> Report:
    plan = Plan(seed=2, kills=self_kills, devices=4, emitters=4)
    command = (sys.executable, "-m", "tests.faults.updates.planted_bugs", bug)
    return UpdatesCampaign(folder, plan).run_with_self_kills((*command, "crash"), (*command, "survive"))


def test_bug_marking_before_publishing_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "mark_before_publish", 2).verdict.lost


def test_bug_publishing_before_marking_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "publish_before_mark", 2).verdict.repeated


def test_bug_responding_before_the_commit_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "respond_before_commit", 2).verdict.lost


def test_bug_emitting_in_another_transaction_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "emit_in_another_transaction", 2).verdict.lost


def test_bug_delivering_out_of_order_is_found(tmp_path: Path) -> None:
    assert run_with_bug(tmp_path, "deliver_out_of_order", 0).verdict.reordered
