"""Dispatchers are paused past their leases under load: they do not deliver the rows that they held, and no signal is
lost, delivered twice or out of order.

RESTANTE_FAULT_STOPS sets how often; `make test` pauses them only a few times, because each pause takes three seconds.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.faults.nodes.campaign import Fault, NodesCampaign, Plan, Report
from tests.faults.nodes.cluster import running_cluster
from tests.faults.server_process import ServerProcess

pytestmark = pytest.mark.slow

STOPS = int(os.environ.get("RESTANTE_FAULT_STOPS", "6"))
PAUSE_SECONDS = 3.0
DISPATCHING = ("--roles", "dispatcher,wrapping,recovery", "--outbox-lease-seconds", "1")


def show(report: Report, capsys: pytest.CaptureFixture[str], more: str = "") -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n{more}")


def test_dispatchers_paused_past_their_leases_deliver_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three dispatchers are paused at overlapping times while they hold rows."""
    with running_cluster(tmp_path) as cluster:
        serving = [cluster.add("--roles", "api,rules,retention")]
        slow = (sys.executable, "-m", "tests.faults.nodes.planted_bugs", "slow_dispatch", "survive")
        dispatching = [cluster.add(*DISPATCHING, command=slow) for _ in range(3)]
        cluster.wait_until_ready()

        def pause_all(_number: int) -> None:
            delays = (0.0, 0.4, 0.8)
            threads = [
                threading.Thread(target=pause_after, args=(node, delay))
                for node, delay in zip(dispatching, delays, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        report = NodesCampaign(cluster, serving, Plan(seed=6, devices=40)).run(
            Fault("three dispatchers paused", STOPS // 3, pause_all)
        )
        stale = sum(node.metric('restante_outbox_source_stale_total{source="server"}') for node in dispatching)
    show(report, capsys, f"{STOPS // 3 * 3} pauses of {PAUSE_SECONDS} s; {stale:.0f} stale rows refused\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    assert stale > 0


def pause_after(node: ServerProcess, delay: float) -> None:
    time.sleep(delay)
    node.send_signal(signal.SIGSTOP)
    time.sleep(PAUSE_SECONDS)
    node.send_signal(signal.SIGCONT)
