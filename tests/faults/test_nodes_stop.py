"""Dispatchers are stopped past their leases under load: what they wake up with they do not publish, and nothing is
lost, told twice or out of order.

How often is set by RESTANTE_FAULT_STOPS; `make test` stops them a few times, as each time takes three seconds.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.faults.nodes_campaign import Fault, NodesCampaign, Plan, Report
from tests.faults.nodes_cluster import cluster
from tests.faults.server_process import ServerProcess

pytestmark = pytest.mark.slow

STOPS = int(os.environ.get("RESTANTE_FAULT_STOPS", "6"))
STOP_SECONDS = 3.0
DISPATCHING = ("--roles", "dispatcher,wrapping,recovery", "--outbox-lease-seconds", "1")


def show(report: Report, capsys: pytest.CaptureFixture[str], more: str = "") -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n{more}")


def test_dispatchers_that_wake_up_after_their_leases_publish_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of three is stopped in turn, at the same time as the others, while it has rows in its hands."""
    with cluster(tmp_path) as running:
        serving = [running.add("--roles", "api,rules,retention")]
        slow = (sys.executable, "-m", "tests.faults.nodes_sabotage", "slow_dispatch", "live")
        dispatching = [running.add(*DISPATCHING, command=slow) for _ in range(3)]
        running.wait_until_ready()

        def stop_all(_number: int) -> None:
            delays = (0.0, 0.4, 0.8)
            threads = [
                threading.Thread(target=stop_for_a_while, args=(node, delay))
                for node, delay in zip(dispatching, delays, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        report = NodesCampaign(running, serving, Plan(seed=6, devices=40)).run(
            Fault("three dispatchers stopped", STOPS // 3, stop_all)
        )
        stale = sum(node.metric('restante_outbox_source_stale_total{source="server"}') for node in dispatching)
    show(report, capsys, f"{STOPS // 3 * 3} stops of {STOP_SECONDS} s; {stale:.0f} stale rows refused\n")
    assert report.surprises == []
    assert report.verdict.violations == []
    assert stale > 0


def stop_for_a_while(node: ServerProcess, delay: float) -> None:
    time.sleep(delay)
    node.tell(signal.SIGSTOP)
    time.sleep(STOP_SECONDS)
    node.tell(signal.SIGCONT)
