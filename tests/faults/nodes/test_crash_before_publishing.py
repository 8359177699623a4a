"""A node that crashes between a commit and its cluster messages: the other nodes notice the commit nevertheless."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.client import Client, NoResponse, Response, register
from tests.faults.commands.collector import COMMANDS
from tests.faults.commands.site import ADMIN, add_collector, add_miner, add_site
from tests.faults.nodes.cluster import Cluster, running_cluster
from tests.faults.server_process import TIMEOUT_SECONDS, ServerProcess

pytestmark = pytest.mark.slow

CRASHING = (sys.executable, "-m", "tests.faults.nodes.planted_bugs", "crash_before_publishing", "crash")


def test_parked_poll_at_another_node_is_woken_without_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_cluster(tmp_path) as cluster, ThreadPoolExecutor(2) as threads:
        surviving = cluster.add("--roles", "api")
        operator = Client(surviving.port, cluster.prepared.key)
        device = register(operator, cluster.prepared)
        site_id = add_site(operator, "north")
        miner = add_miner(operator, site_id)
        collector = add_collector(operator, site_id, "roof")
        signal = (
            "POST",
            f"/apiv1/users/{cluster.prepared.user_id}/devices/{device.id}/signals",
            {"type": "app.last", "ref": {}},
        )
        command = (
            "POST",
            f"{ADMIN}/commands",
            {"site_id": site_id, "miner_id": miner, "command_type": "MINER_RESTART", "params": {"reason": "faults"}},
        )
        device_client, collector_client = Client(surviving.port, device.token), Client(surviving.port, collector.token)
        signal_result = poll_during_crash(
            cluster, threads, lambda: device_client.poll("0-0", 30), surviving, "restante_parked_polls", signal
        )
        assert [each["type"] for each in signal_result[0].data["signals"]] == ["app.last"]
        command_result = poll_during_crash(
            cluster,
            threads,
            lambda: collector_client.request("GET", f"{COMMANDS}/poll?wait=30"),
            surviving,
            None,
            command,
        )
        assert len(command_result[0].body["commands"]) == 1
        for client in (operator, device_client, collector_client):
            client.close()
    with capsys.disabled():
        seconds = f"{signal_result[1]:.2f} s (signal), {command_result[1]:.2f} s (command)"
        sys.stdout.write(f"\nwoken without a message: {seconds}\n")


def poll_during_crash(
    cluster: Cluster,
    threads: ThreadPoolExecutor,
    poll: Callable[[], Response],
    surviving: ServerProcess,
    metric: str | None,
    request: tuple[str, str, object],
) -> tuple[Response, float]:
    """Let a node crash after a change while a poll is parked at another node; returns its response and the delay."""
    crashing = cluster.add("--roles", "api", "--direct-signals", command=CRASHING)
    crashing.wait_until_ready()
    waiting = threads.submit(poll)
    if metric is not None:
        surviving.wait_for_metric(metric, 1)
    client = Client(crashing.port, cluster.prepared.key)
    with pytest.raises(NoResponse):
        client.request(*request)
    client.close()
    assert crashing.wait_for_exit() < 0
    crashed_at = time.monotonic()
    response = waiting.result(TIMEOUT_SECONDS)
    return response, time.monotonic() - crashed_at
