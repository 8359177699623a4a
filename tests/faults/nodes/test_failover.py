"""PostgreSQL fails over to a standby under load: nodes whose address names both servers continue, and no acknowledged
change is lost, delivered twice or out of order."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.nodes.campaign import Fault, NodesCampaign, Plan
from tests.faults.nodes.cluster import Cluster
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.slow

REPLICATED = ("wal_level=replica", "max_wal_senders=4", "shared_buffers=32MB")


@contextmanager
def primary_and_standby() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    primary = PostgresServer(*REPLICATED)
    try:
        primary.start()
        standby = PostgresServer(*REPLICATED, follows=primary)
        try:
            standby.start()
            yield primary, standby
        finally:
            standby.remove()
    finally:
        primary.remove()


def test_nodes_continue_with_the_promoted_standby(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with primary_and_standby() as (primary, standby):
        # As in docs/deployment.md: both hosts, and the one that accepts writes is used.
        both = f"{primary.create()},{standby.folder}&target_session_attrs=read-write"
        primary.wait_for_standby()
        cluster = Cluster(tmp_path, primary, url=both)
        try:
            serving = [cluster.add("--roles", "api,rules,retention") for _ in range(2)]
            cluster.add("--roles", "dispatcher,wrapping,recovery", "--outbox-lease-seconds", "1")
            cluster.wait_until_ready()

            def fail_over(_number: int) -> None:
                primary.stop(signal.SIGKILL)
                standby.promote()

            plan = Plan(seed=7, devices=30, uptime_seconds=(2.0, 3.0))
            report = NodesCampaign(cluster, serving, plan).run(Fault("failed over", 1, fail_over))
            is_standby = standby.run("SELECT pg_is_in_recovery()")
        finally:
            cluster.end()
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    assert report.verdict.acknowledged > 50
    assert is_standby == [(False,)]
