"""A node that dies exactly between its commit and telling the others of it: they notice nevertheless."""

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.client import Client, Reply, Unanswered, register
from tests.faults.commands_collector import COMMANDS
from tests.faults.commands_site import ADMIN, add_collector, add_miner, add_site
from tests.faults.nodes_cluster import Cluster, cluster
from tests.faults.server_process import PATIENCE_SECONDS, ServerProcess

pytestmark = pytest.mark.slow

DYING = (sys.executable, "-m", "tests.faults.nodes_sabotage", "die_untold", "die")


def test_who_waits_at_another_node_is_woken_although_nobody_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(tmp_path) as running, ThreadPoolExecutor(2) as threads:
        alive = running.add("--roles", "api")
        operator = Client(alive.port, running.prepared.key)
        device = register(operator, running.prepared)
        site_id = add_site(operator, "north")
        miner = add_miner(operator, site_id)
        collector = add_collector(operator, site_id, "roof")
        signal = (
            "POST",
            f"/apiv1/users/{running.prepared.user_id}/devices/{device.id}/signals",
            {"type": "app.last", "ref": {}},
        )
        command = (
            "POST",
            f"{ADMIN}/commands",
            {"site_id": site_id, "miner_id": miner, "command_type": "MINER_RESTART", "params": {"reason": "faults"}},
        )
        device_client, collector_client = Client(alive.port, device.token), Client(alive.port, collector.token)
        told = dying_words(
            running, threads, lambda: device_client.poll("0-0", 30), alive, "restante_parked_polls", signal
        )
        assert [each["type"] for each in told[0].data["signals"]] == ["app.last"]
        handed = dying_words(
            running, threads, lambda: collector_client.ask("GET", f"{COMMANDS}/poll?wait=30"), alive, None, command
        )
        assert len(handed[0].body["commands"]) == 1
        for client in (operator, device_client, collector_client):
            client.close()
    with capsys.disabled():
        sys.stdout.write(f"\nwoken after {told[1]:.2f} s (signal) and {handed[1]:.2f} s (command), told by nobody\n")


def dying_words(
    running: Cluster,
    threads: ThreadPoolExecutor,
    poll: Callable[[], Reply],
    alive: ServerProcess,
    metric: str | None,
    request: tuple[str, str, object],
) -> tuple[Reply, float]:
    """Have a node make a change, and die of it, while a poll waits at the other; its answer, and after how long."""
    dying = running.add("--roles", "api", "--direct-signals", command=DYING)
    dying.wait_until_ready()
    waiting = threads.submit(poll)
    if metric is not None:
        alive.wait_for_metric(metric, 1)
    client = Client(dying.port, running.prepared.key)
    with pytest.raises(Unanswered):
        client.ask(*request)
    client.close()
    assert dying.wait_for_exit() < 0
    died_at = time.monotonic()
    reply = waiting.result(PATIENCE_SECONDS)
    return reply, time.monotonic() - died_at
