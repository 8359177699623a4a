"""Nodes, workers, dispatchers, PostgreSQL and Redis are killed with SIGKILL under load: no acknowledged change is lost,
delivered twice or out of order.

RESTANTE_FAULT_KILLS sets how often; `make test` kills each part once, `make faults` thirty times.
"""

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.faults.client import Client
from tests.faults.nodes.campaign import Fault, NodesCampaign, Plan, Report
from tests.faults.nodes.cluster import running_cluster, seconds_until
from tests.faults.server_process import ServerProcess
from tests.services.redis import RedisServer, running_redis

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("RESTANTE_FAULT_KILLS", "1"))
# Much longer than the required three seconds, because this machine may be busy with other tests.
RECOVERED_WITHIN_SECONDS = float(os.environ.get("RESTANTE_FAULT_BACK_SECONDS", "20"))
WORKERS = 2
REDIS_HITS = 'restante_redis_reads_total{outcome="hit"}'
SERVING = ("--roles", "api,rules,retention")
DISPATCHING = ("--roles", "dispatcher,wrapping,recovery", "--outbox-lease-seconds", "1")


def show(report: Report, capsys: pytest.CaptureFixture[str], more: str = "") -> None:
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n{more}")


def restart(node: ServerProcess) -> None:
    node.kill()
    node.start()


def restart_redis(redis: RedisServer) -> None:
    """Redis loses what it had not yet written to disk."""
    redis.kill()
    redis.start()


def is_read_from_redis(node: ServerProcess, token: str) -> bool:
    before = node.metric(REDIS_HITS)
    client = Client(node.port, token)
    assert client.request("GET", "/apiv1/devices/self/updates?limit=1").status == 200
    client.close()
    return node.metric(REDIS_HITS) > before


def test_kills_of_every_part_lose_nothing_and_repeat_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (
        running_redis("--appendonly", "yes", "--appendfsync", "everysec") as redis,
        running_cluster(tmp_path, "--redis-url", redis.url) as cluster,
    ):
        single = cluster.add(*SERVING)
        multi_worker = cluster.add(*SERVING, "--workers", str(WORKERS))
        dispatching = [cluster.add(*DISPATCHING) for _ in range(2)]
        cluster.wait_until_ready()

        def kill_node(_number: int) -> int:
            restart(single)
            return single.port

        def kill_worker(_number: int) -> int:
            os.kill(multi_worker.workers()[0], signal.SIGKILL)
            return multi_worker.port

        def wait_for_workers() -> None:
            seconds_until(lambda: len(multi_worker.workers()) == WORKERS)

        def kill_dispatcher(number: int) -> None:
            restart(dispatching[number % 2])

        def kill_postgres(_number: int) -> None:
            cluster.kill_postgres()

        def kill_redis(_number: int) -> None:
            restart_redis(redis)

        campaign = NodesCampaign(cluster, [single, multi_worker], Plan(seed=5))
        report = campaign.run(
            Fault("node killed", KILLS, kill_node),
            Fault("worker killed", KILLS, kill_worker, wait_for_workers),
            Fault("dispatcher killed", KILLS, kill_dispatcher),
            Fault("PostgreSQL killed", KILLS, kill_postgres),
            Fault("Redis killed", KILLS, kill_redis),
        )
        redis_hits = single.metric(REDIS_HITS)
        # Redis is used again: a read that misses an entry puts it back for the next read.
        seconds_until(lambda: is_read_from_redis(single, campaign.devices[0].handle.token))
    show(report, capsys, f"{redis_hits:.0f} reads from Redis by the killed node since its last start\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    assert report.verdict.acknowledged > 100
    assert max(second for seconds in report.recovery_seconds.values() for second in seconds) < RECOVERED_WITHIN_SECONDS
