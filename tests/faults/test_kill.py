"""The server is killed with SIGKILL again and again under load; nothing acknowledged is lost, nothing told twice.

And the checker that says so is itself put to the test: on builds with a fault in them it must find the fault.
"""

import sys
from pathlib import Path

import pytest

from tests.faults.campaign import Campaign, Plan, Report

pytestmark = pytest.mark.slow

KILLS = 22
BACK_WITHIN_SECONDS = 15.0
# Far less than the lease on the rows that were in the dead server's hands.
DRAINED_WITHIN_SECONDS = 10.0


def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = Campaign(tmp_path, Plan(seed=1, kills=KILLS)).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
    assert report.surprises == []
    assert report.verdict.violations == []
    assert report.kills >= 20
    assert report.verdict.acknowledged > 300
    assert max(report.back_seconds) < BACK_WITHIN_SECONDS
    assert report.drained_seconds < DRAINED_WITHIN_SECONDS


def test_kills_lose_nothing_where_signals_go_straight_to_the_log(tmp_path: Path) -> None:
    plan = Plan(seed=3, kills=5, devices=8, emitters=4)
    report = Campaign(tmp_path, plan, "--direct-signals").run_with_kills()
    assert report.surprises == []
    assert report.verdict.violations == []


def test_rows_in_a_dead_servers_hands_do_not_wait_for_their_lease(tmp_path: Path) -> None:
    report = sabotaged(tmp_path, "die_holding", 2)
    assert report.surprises == []
    assert report.verdict.violations == []
    assert report.drained_seconds < DRAINED_WITHIN_SECONDS


def sabotaged(folder: Path, fault: str, suicides: int) -> Report:
    plan = Plan(seed=2, kills=suicides, devices=4, emitters=4)
    command = (sys.executable, "-m", "tests.faults.sabotage", fault)
    return Campaign(folder, plan).run_with_suicides((*command, "die"), (*command, "live"))


def test_marking_before_publishing_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "mark_before_publish", 2).verdict.lost


def test_publishing_and_marking_apart_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "publish_before_mark", 2).verdict.repeated


def test_answering_before_the_commit_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "answer_before_commit", 2).verdict.lost


def test_a_signal_outside_the_changes_transaction_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "signal_apart", 2).verdict.lost


def test_publishing_out_of_order_is_found(tmp_path: Path) -> None:
    assert sabotaged(tmp_path, "out_of_order", 0).verdict.reordered
