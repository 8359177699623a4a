"""PostgreSQL fails over to a server that stood by, under load: nodes whose address names both go on, and nothing that
was acknowledged is lost, told twice or out of order."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.nodes_campaign import Fault, NodesCampaign, Plan
from tests.faults.nodes_cluster import Cluster
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.slow

REPLICATED = ("wal_level=replica", "max_wal_senders=4", "shared_buffers=32MB")


@contextmanager
def pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A server, and one that stands by for it."""
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


def test_nodes_go_on_with_the_server_that_stood_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pair() as (primary, standby):
        # As in docs/deployment.md: both hosts, and whoever takes writes is the one.
        both = f"{primary.create()},{standby.folder}&target_session_attrs=read-write"
        primary.wait_for_standby()
        running = Cluster(tmp_path, primary, url=both)
        try:
            serving = [running.add("--roles", "api,rules,retention") for _ in range(2)]
            running.add("--roles", "dispatcher,wrapping,recovery", "--outbox-lease-seconds", "1")
            running.wait_until_ready()

            def fail_over(_number: int) -> None:
                primary.stop(signal.SIGKILL)
                standby.promote()

            plan = Plan(seed=7, devices=30, life_seconds=(2.0, 3.0))
            report = NodesCampaign(running, serving, plan).run(Fault("failed over", 1, fail_over))
            is_standby = standby.run("SELECT pg_is_in_recovery()")
        finally:
            running.end()
    with capsys.disabled():
        sys.stdout.write(f"\n{report}\n")
    assert report.surprises == []
    assert report.verdict.violations == []
    assert report.verdict.acknowledged > 50
    assert is_standby == [(False,)]
