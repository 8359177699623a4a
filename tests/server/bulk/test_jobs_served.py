"""Jobs of a running node: created, run, shown, listed and aborted over HTTP."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.grants import checked_grants
from tests.components import metric_values
from tests.server.live_server import LiveServer

ADMIN = "/api/edge/v1/admin"
WAIT_SECONDS = 60


class JobServer:
    def __init__(self, folder: Path) -> None:
        self.live = LiveServer(folder)
        _, key = self.live.node.database.write_now(api_keys.create, "admin", Role.admin)
        self.client = self.client_with(key)
        self.site_id = self.client.post(f"{ADMIN}/sites", json={"name": "North"}).json()["id"]
        for number in range(5):
            body = {"site_id": self.site_id, "name": f"miner {number}"}
            self.client.post(f"{ADMIN}/miners", json=body).raise_for_status()

    def client_with(self, key: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {key}"}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.live.fast_port}", headers=headers, timeout=30)

    def send(self, **changed: Any) -> str:
        params = {"command_type": "HASHING_ENABLE"}
        body = {"action": "send", "filter": {"site_id": self.site_id}, "params": params, **changed}
        response = self.client.post(f"{ADMIN}/miners/bulk", json=body)
        assert response.status_code == 202, response.text
        return str(response.json()["job_id"])

    def job(self, job_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.client.get(f"/apiv1/jobs/{job_id}").raise_for_status().json()["data"]
        return shown

    def wait_for(self, job_id: str, **expected: Any) -> dict[str, Any]:
        end = time.monotonic() + WAIT_SECONDS
        while True:
            shown = self.job(job_id)
            if all(shown[name] == value for name, value in expected.items()):
                return shown
            assert time.monotonic() < end, shown
            time.sleep(0.02)

    def wait_for_rollout(self, path: str, condition: Callable[[dict[str, Any]], bool]) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not condition(shown := self.client.get(path).raise_for_status().json()["data"]):
            assert time.monotonic() < end, shown
            time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[JobServer]:
    server = JobServer(tmp_path)
    yield server
    server.client.close()
    server.live.close()


def test_job_runs_and_shows_the_state_of_each_miners_command(server: JobServer) -> None:
    job_id = server.send()
    shown = server.wait_for(job_id, state="done")
    assert (shown["total"], shown["done"], shown["outcomes"]) == (5, 5, {"pending": 5})
    items = server.client.get(f"/apiv1/jobs/{job_id}/items", params={"limit": 2}).json()["data"]
    assert [(item["ref"], item["outcome"]) for item in items["items"]] == [
        ("miner 0", "pending"),
        ("miner 1", "pending"),
    ]
    rest = server.client.get(f"/apiv1/jobs/{job_id}/items", params={"after": items["next"]}).json()["data"]
    assert (len(rest["items"]), rest["next"]) == (3, None)
    assert server.client.get(f"/apiv1/jobs/{job_id}/items", params={"state": "failed"}).json()["data"]["items"] == []
    metrics = metric_values(server.live.node.bulk)
    assert metrics["restante_job_items", "done"] == 5


def test_job_is_paused_resumed_and_aborted(server: JobServer) -> None:
    job_id = server.send(rate_per_second=1)
    server.wait_for(job_id, state="running")
    paused = server.client.post(f"/apiv1/jobs/{job_id}/pause").json()["data"]
    assert paused["state"] == "paused"
    listed = server.client.get("/apiv1/jobs", params={"state": "paused", "target": "miners"}).json()["data"]["items"]
    assert [job["job_id"] for job in listed] == [job_id]
    assert server.client.post(f"/apiv1/jobs/{job_id}/resume").json()["data"]["state"] == "queued"
    aborted = server.client.post(f"/apiv1/jobs/{job_id}/abort").json()["data"]
    assert aborted["state"] == "aborted"
    assert server.client.post(f"/apiv1/jobs/{job_id}/resume").status_code == 409
    assert server.client.get("/apiv1/jobs", params={"state": "lost"}).status_code == 400


def test_operator_of_another_site_sees_no_job_of_this_one(server: JobServer) -> None:
    job_id = server.send()
    grants = checked_grants([(Role.operator, f"commands:{server.site_id + 1}"), (Role.admin, "updates")])
    _, key = server.live.node.database.write_now(api_keys.create, "south", grants)
    with server.client_with(key) as other:
        assert other.get(f"/apiv1/jobs/{job_id}").status_code == 404
        assert other.post(f"/apiv1/jobs/{job_id}/abort").status_code == 404
        assert other.get("/apiv1/jobs").json()["data"]["items"] == []


def test_rollout_is_created_watched_advanced_and_rolled_back(server: JobServer) -> None:
    body = {
        "target": "miners",
        "action": "send",
        "filter": {"site_id": server.site_id},
        "params": {"command_type": "HASHING_ENABLE"},
        "waves": [{"count": 2}, {"percent": 100}],
    }
    dry = server.client.post("/apiv1/rollouts", json={**body, "dry_run": True})
    assert (dry.status_code, dry.json()["data"]["total"]) == (200, 5)
    rollout_id = server.client.post("/apiv1/rollouts", json=body).raise_for_status().json()["data"]["rollout_id"]
    path = f"/apiv1/rollouts/{rollout_id}"
    server.wait_for_rollout(path, lambda shown: shown["waves"][0]["waiting"] == 2)
    laggards = server.client.get(f"{path}/laggards").json()["data"]["items"]
    assert [(each["name"], each["wave"], each["state"]) for each in laggards] == [
        ("miner 0", 1, "waiting"),
        ("miner 1", 1, "waiting"),
    ]
    # Advancing needs a wave that is handed out, which the job may be about to say.
    server.wait_for_rollout(path, lambda _: server.client.post(f"{path}/advance").status_code == 200)
    server.wait_for_rollout(path, lambda shown: shown["waiting"] == 5)
    assert server.client.patch(path, json={"error_percent": 50}).json()["data"]["error_percent"] == 50
    assert server.client.post(f"{path}/roll-back").json()["data"]["state"] == "rolling_back"
    server.wait_for_rollout(path, lambda shown: shown["state"] == "rolled_back")
    cancelled = server.client.get(f"{ADMIN}/commands", params={"status": "cancelled"}).json()["items"]
    assert len(cancelled) == 5
    [listed] = server.client.get("/apiv1/rollouts", params={"state": "rolled_back"}).json()["data"]["items"]
    assert (listed["rollout_id"], listed["succeeded"]) == (rollout_id, None)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"waves": []}, "waves"),
        ({"waves": [{"percent": 10, "count": 1}]}, "waves[0]"),
        ({"waves": [{"percent": 50}, {"percent": 10}]}, "waves[1].percent"),
        ({"waves": [{"filter": {"colour": 1}}]}, "waves[0].filter"),
        ({"waves": [{"filter": {"site_id": 1}}]}, "waves[0].filter.site_id"),
        ({"action": "put_config"}, "action"),
        ({"filter": {}}, "filter"),
        ({"success_percent": 101}, "success_percent"),
        ({"params": {"command_type": "NONE"}}, "params.command_type"),
    ],
)
def test_malformed_rollout_names_its_field(server: JobServer, changed: dict[str, Any], field: str) -> None:
    body = {
        "target": "miners",
        "action": "send",
        "filter": {"site_id": server.site_id},
        "params": {"command_type": "HASHING_ENABLE"},
        **changed,
    }
    response = server.client.post("/apiv1/rollouts", json=body)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["what"].partition(": ")[0] == field
    assert server.client.get("/apiv1/rollouts").json()["data"]["items"] == []


def test_two_operators_who_change_the_same_miners_at_once_both_succeed(server: JobServer) -> None:
    job_ids = [server.send(rate_per_second=rate) for rate in (100, 50)]
    for job_id in job_ids:
        assert server.wait_for(job_id, state="done")["done"] == 5
    commands = server.client.get(f"{ADMIN}/commands", params={"limit": 100}).json()["items"]
    assert len(commands) == 10
