"""A real server process on either engine, and the operator of one site on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.nodes.cluster import Cluster
from tests.faults.server_process import ServerProcess, prepare_data

MINER = 1001
LATE_MINER = 1002
# No lease ends by itself, however slow the machine is, until `shorten_leases`.
FLAGS = ("--default-retry-backoff-sec", "1", "--max-command-retries", "10", "--log-level", "warning")


class Operator:
    """The operator of one site, with an admin key. A second miner is not registered yet."""

    def __init__(self, server: ServerProcess, key: str) -> None:
        self.server = server
        self.url = url = f"http://127.0.0.1:{server.port}"
        self.client = httpx.Client(base_url=url + "/api/edge/v1/admin", headers={"Authorization": f"Bearer {key}"})
        self.site_id: int = self.post("/sites", name="North")["id"]
        self.token: str = self.post("/devices", site_id=self.site_id, device_name="collector")["token"]
        self.add_miner(MINER)

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        response = self.client.post(path, json=body)
        assert response.status_code == 201, response.text
        content: dict[str, Any] = response.json()
        return content

    def get(self, path: str) -> dict[str, Any]:
        response = self.client.get(path)
        assert response.status_code == 200, response.text
        content: dict[str, Any] = response.json()
        return content

    def add_miner(self, miner_id: int) -> None:
        self.post("/miners", site_id=self.site_id, id=miner_id, name=f"miner {miner_id}")

    def shorten_leases(self) -> None:
        """Restart the server, so that a lease without an ACK ends while a test waits for it."""
        self.server.restart("--command-lease-duration-sec", "1")

    def command(self, command_type: str, miner_id: int = MINER, **params: Any) -> str:
        created = self.post(
            "/commands", site_id=self.site_id, miner_id=miner_id, command_type=command_type, params=params
        )
        command_id: str = created["command_id"]
        return command_id


@contextmanager
def running_site(engine_name: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Operator]:
    if engine_name == "postgres":
        cluster = Cluster(
            folder, request.getfixturevalue("postgres"), *FLAGS, url=request.getfixturevalue("empty_postgres_url")
        )
        server, key = cluster.add(), cluster.prepared.key
    else:
        prepared = prepare_data(folder / "data")
        server, key = ServerProcess(prepared.data, *FLAGS), prepared.key
        server.start()
    try:
        server.wait_until_ready()
        operator = Operator(server, key)
        yield operator
        operator.client.close()
    finally:
        server.end()
