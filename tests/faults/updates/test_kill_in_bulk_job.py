"""A server that is killed in the middle of a bulk job, and in the middle of a wave of a rollout: each device gets the
change once, and none is left out."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.cli.database import open_embedded_database
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.server.data_folder import DataFolder
from tests.faults.server_process import PreparedData, ServerProcess, prepare_data

pytestmark = pytest.mark.slow

DEVICES = 900
KILLS = 2
WAIT_SECONDS = 120.0
# Slow enough that a kill finds the job in the middle, and fast enough for a test.
RATE = 300
ITEM = {"id": "site", "type": "copy", "from": ["fullchain.pem"], "to": ["/etc/ssl/site.pem"]}

ADD_DEVICES = Query(
    "add_devices",
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) "
    "INSERT INTO user_devices (user_id, device_public_id, dev_pk, device_keyfp, created_at, updated_at) "
    "SELECT :user_id, 'device-' || i, x'00', x'00', 0, 0 FROM n",
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
APPLY = Query("apply", "UPDATE device_install_configs SET applied_version = version, state = 'applied'")


class BulkServer:
    def __init__(self, folder: Path) -> None:
        self.prepared: PreparedData = prepare_data(folder / "data")
        with open_embedded_database(DataFolder(self.prepared.data)) as database:
            database.write_now(self._add_devices)
        self.server = ServerProcess(self.prepared.data)
        self.server.start()
        self.server.wait_until_ready()

    def _add_devices(self, conn: Connection) -> None:
        conn.run(ADD_DEVICES, count=DEVICES, user_id=self.prepared.user_id)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Bearer {self.prepared.key}"}
        url = f"http://127.0.0.1:{self.server.port}{path}"
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
        self.server.kill()
        self.server.start()
        self.server.wait_until_ready(WAIT_SECONDS)

    def rows(self) -> list[Any]:
        """Ends the server, and reads what it has done to each device."""
        self.server.end()
        with open_embedded_database(DataFolder(self.prepared.data)) as database:
            return database.read_now(lambda conn: conn.all(VERSIONS))

    def report_all_applied(self) -> None:
        with open_embedded_database(DataFolder(self.prepared.data)) as database:
            database.write_now(lambda conn: conn.run(APPLY))


@pytest.fixture
def bulk(tmp_path: Path) -> Iterator[BulkServer]:
    bulk = BulkServer(tmp_path)
    yield bulk
    bulk.server.end()


def check_each_device_once(rows: list[Any], count: int = DEVICES) -> None:
    changed = [row for row in rows if row["version"]]
    assert len(changed) == count
    for row in changed:
        counts = {name: row[name] for name in ("version", "history", "signals", "items", "audited")}
        assert set(counts.values()) == {1}, (row["id"], counts)


def test_killed_bulk_job_changes_each_device_once(bulk: BulkServer) -> None:
    body = {"action": "put_config", "all": True, "params": {"installs": [ITEM]}, "rate_per_second": RATE}
    path = f"/apiv1/jobs/{bulk.call('POST', '/apiv1/devices/bulk', body)['job_id']}"
    for kill in range(1, KILLS + 1):
        # On a stalled machine the job may have ended by then: the kill proves less, and must do no harm either.
        reached = DEVICES * kill // (KILLS + 2)
        bulk.wait_for(path, lambda job, reached=reached: job["done"] >= reached)
        bulk.kill_and_restart()
    done = bulk.wait_for(path, lambda job: job["state"] == "done")
    assert (done["done"], done["failed"], done["skipped"]) == (DEVICES, 0, 0)
    check_each_device_once(bulk.rows())


def test_killed_wave_of_a_rollout_changes_each_device_once(bulk: BulkServer) -> None:
    first = DEVICES // 2
    body = {
        "target": "devices",
        "action": "put_config",
        "all": True,
        "params": {"installs": [ITEM]},
        "waves": [{"count": first}, {"percent": 100}],
        "min_wave_seconds": 0,
        "rate_per_second": RATE,
    }
    path = f"/apiv1/rollouts/{bulk.call('POST', '/apiv1/rollouts', body)['rollout_id']}"
    bulk.wait_for(path, lambda shown: shown["waves"][0]["handed_out"] >= first // 3)
    bulk.kill_and_restart()
    bulk.wait_for(path, lambda shown: shown["waves"][0]["handed_out"] == first)
    assert bulk.call("GET", path)["wave"] == 1, "no device has reported success yet"
    bulk.report_all_applied()
    bulk.wait_for(path, lambda shown: shown["wave"] == 2 and shown["waves"][1]["handed_out"] >= first // 3)
    bulk.kill_and_restart()
    bulk.wait_for(path, lambda shown: shown["waves"][1]["handed_out"] == DEVICES - first)
    bulk.report_all_applied()
    done = bulk.wait_for(path, lambda shown: shown["state"] == "done")
    assert (done["succeeded"], done["failed"], done["waiting"]) == (DEVICES, 0, 0)
    check_each_device_once(bulk.rows())
