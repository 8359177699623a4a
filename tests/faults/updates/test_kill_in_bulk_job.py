"""A server that is killed in the middle of a bulk job, and in the middle of a wave of a rollout: each device gets the
change once, and none is left out. It starts again, or another node takes over."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.database.connection import Connection
from restante.database.queries import Query
from tests.faults.deployments import Deployment, OneNode, SingleServer, TwoNodes
from tests.faults.nodes.cluster import running_cluster
from tests.faults.server_process import ServerProcess

pytestmark = pytest.mark.slow

DEVICES = 900
KILLS = 2
WAIT_SECONDS = 120.0
# Slow enough that a kill finds the job in the middle, and fast enough for a test.
RATE = 300
ITEM = {"id": "site", "type": "copy", "from": ["fullchain.pem"], "to": ["/etc/ssl/site.pem"]}

ADD_DEVICES = Query(
    "add_devices",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < CAST(:count AS BIGINT)) "
    "INSERT INTO user_devices (user_id, device_public_id, dev_pk, device_keyfp, created_at, updated_at) "
    "SELECT CAST(:user_id AS BIGINT), 'device-' || i, :key, :key, 0, 0 FROM n",
)
VERSIONS = Query(
    "versions",
    "SELECT d.id, COALESCE(c.version, 0) AS version, "
    "(SELECT COUNT(*) FROM device_install_config_history h WHERE h.config_id = c.id) AS history, "
    "(SELECT COUNT(*) FROM device_update_outbox o WHERE o.device_id = d.id) AS signals, "
    "(SELECT COUNT(*) FROM job_items i WHERE i.item = d.id) AS items, "
    "(SELECT COUNT(*) FROM access_audit a WHERE a.job IS NOT NULL "
    " AND a.detail LIKE '%\"device_id\":' || d.id || ',%') AS audited "
    "FROM user_devices d LEFT JOIN device_install_configs c ON c.user_device_id = d.id ORDER BY d.id",
)
HOLDERS = Query("holders", "SELECT lease_owner FROM jobs WHERE lease_owner IS NOT NULL")
APPLY = Query("apply", "UPDATE device_install_configs SET applied_version = version, state = 'applied'")


class BulkServer:
    """Servers with devices, and the job or rollout that they run. Calls go to the first server that is alive."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        with deployment.opened() as database:
            database.write_now(self._add_devices)
        deployment.start()

    def _add_devices(self, conn: Connection) -> None:
        conn.run(ADD_DEVICES, count=DEVICES, user_id=self.deployment.prepared.user_id, key=bytes(32))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        node = next(node for node in self.deployment.nodes if node.process.poll() is None)
        headers = {"authorization": f"Bearer {self.deployment.prepared.key}"}
        url = f"http://127.0.0.1:{node.port}{path}"
        response = httpx.request(method, url, headers=headers, json=body, timeout=30)
        response.raise_for_status()
        return response.json()["data"]

    def wait_for(self, path: str, condition: Any) -> Any:
        end = time.monotonic() + WAIT_SECONDS
        while True:
            shown = self.call("GET", path)
            if condition(shown):
                return shown
            assert time.monotonic() < end, shown
            time.sleep(0.02)

    def kill_and_restart(self) -> None:
        [node] = self.deployment.nodes
        node.kill()
        node.start()
        node.wait_until_ready(WAIT_SECONDS)

    def kill_runner(self) -> ServerProcess:
        """Kill the node that holds the lease of the running job."""
        with self.deployment.opened() as database:
            pids = {int(row["lease_owner"].split(":")[1]) for row in database.read_now(lambda conn: conn.all(HOLDERS))}
        # On a stalled machine the job may have ended by then: the kill proves less, and must do no harm either.
        nodes = self.deployment.nodes
        runner = next((node for node in nodes if node.pid in pids), nodes[0])
        runner.kill()
        return runner

    def rows(self) -> list[Any]:
        """Ends the servers, and reads what they have done to each device."""
        self.deployment.end()
        with self.deployment.opened() as database:
            return database.read_now(lambda conn: conn.all(VERSIONS))

    def report_all_applied(self) -> None:
        with self.deployment.opened() as database:
            database.write_now(lambda conn: conn.run(APPLY))


@pytest.fixture(params=["sqlite", "postgres"])
def bulk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BulkServer]:
    """One server."""
    if request.param == "sqlite":
        with ended(BulkServer(SingleServer(tmp_path))) as bulk:
            yield bulk
    else:
        with running_cluster(tmp_path) as cluster, ended(BulkServer(OneNode(cluster))) as bulk:
            yield bulk


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[BulkServer]:
    with running_cluster(tmp_path) as cluster, ended(BulkServer(TwoNodes(cluster))) as bulk:
        yield bulk


@contextmanager
def ended(bulk: BulkServer) -> Iterator[BulkServer]:
    try:
        yield bulk
    finally:
        bulk.deployment.end()


def check_each_device_once(rows: list[Any], count: int = DEVICES) -> None:
    changed = [row for row in rows if row["version"]]
    assert len(changed) == count
    for row in changed:
        counts = {name: row[name] for name in ("version", "history", "signals", "items", "audited")}
        assert set(counts.values()) == {1}, (row["id"], counts)


JOB = {"action": "put_config", "all": True, "params": {"installs": [ITEM]}, "rate_per_second": RATE}
FIRST_WAVE = DEVICES // 2
ROLLOUT = {**JOB, "target": "devices", "waves": [{"count": FIRST_WAVE}, {"percent": 100}], "min_wave_seconds": 0}


def start_job(bulk: BulkServer) -> str:
    return f"/apiv1/jobs/{bulk.call('POST', '/apiv1/devices/bulk', JOB)['job_id']}"


def start_rollout(bulk: BulkServer) -> str:
    return f"/apiv1/rollouts/{bulk.call('POST', '/apiv1/rollouts', ROLLOUT)['rollout_id']}"


def wait_for_wave(bulk: BulkServer, path: str, wave: int, handed_out: int) -> None:
    bulk.wait_for(path, lambda shown: shown["wave"] >= wave and shown["waves"][wave - 1]["handed_out"] >= handed_out)


def check_finished_job(bulk: BulkServer, path: str) -> None:
    done = bulk.wait_for(path, lambda job: job["state"] == "done")
    assert (done["done"], done["failed"], done["skipped"]) == (DEVICES, 0, 0)
    check_each_device_once(bulk.rows())


def check_finished_rollout(bulk: BulkServer, path: str) -> None:
    bulk.report_all_applied()
    done = bulk.wait_for(path, lambda shown: shown["state"] == "done")
    assert (done["succeeded"], done["failed"], done["waiting"]) == (DEVICES, 0, 0)
    check_each_device_once(bulk.rows())


def test_killed_bulk_job_changes_each_device_once(bulk: BulkServer) -> None:
    path = start_job(bulk)
    for kill in range(1, KILLS + 1):
        # On a stalled machine the job may have ended by then: the kill proves less, and must do no harm either.
        reached = DEVICES * kill // (KILLS + 2)
        bulk.wait_for(path, lambda job, reached=reached: job["done"] >= reached)
        bulk.kill_and_restart()
    check_finished_job(bulk, path)


def test_killed_wave_of_a_rollout_changes_each_device_once(bulk: BulkServer) -> None:
    path = start_rollout(bulk)
    wait_for_wave(bulk, path, 1, FIRST_WAVE // 3)
    bulk.kill_and_restart()
    wait_for_wave(bulk, path, 1, FIRST_WAVE)
    assert bulk.call("GET", path)["wave"] == 1, "no device has reported success yet"
    bulk.report_all_applied()
    wait_for_wave(bulk, path, 2, FIRST_WAVE // 3)
    bulk.kill_and_restart()
    wait_for_wave(bulk, path, 2, DEVICES - FIRST_WAVE)
    check_finished_rollout(bulk, path)


def test_other_node_finishes_the_job_of_a_killed_one(two_nodes: BulkServer) -> None:
    path = start_job(two_nodes)
    two_nodes.wait_for(path, lambda job: job["done"] >= DEVICES // 3)
    killed = two_nodes.kill_runner()
    check_finished_job(two_nodes, path)
    assert killed.process.poll() is not None


def test_other_node_finishes_the_wave_of_a_killed_one(two_nodes: BulkServer) -> None:
    path = start_rollout(two_nodes)
    wait_for_wave(two_nodes, path, 1, FIRST_WAVE // 3)
    killed = two_nodes.kill_runner()
    wait_for_wave(two_nodes, path, 1, FIRST_WAVE)
    # The other way round: the node that took over is killed, and the first one is back.
    killed.start()
    killed.wait_until_ready(WAIT_SECONDS)
    two_nodes.report_all_applied()
    wait_for_wave(two_nodes, path, 2, FIRST_WAVE // 3)
    two_nodes.kill_runner()
    wait_for_wave(two_nodes, path, 2, DEVICES - FIRST_WAVE)
    check_finished_rollout(two_nodes, path)
