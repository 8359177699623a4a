from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from restante.server.cluster.roles import ROLES
from restante.server.monitoring import readiness
from tests.server.live_server import LiveServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path)
    yield server
    server.close()


def get(server: LiveServer, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{server.fast_port}{path}")


def test_running_server_is_alive_and_ready_and_lists_its_roles(server: LiveServer) -> None:
    assert get(server, "/healthz").json() == {"data": {"status": "ok", "roles": list(ROLES)}}
    for path in ("/readyz", "/health"):
        assert get(server, path).json() == {"data": {"status": "ready", "roles": list(ROLES)}}


def test_server_with_a_full_disk_is_not_ready(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    # More space than any disk has, so the free space is too little.
    monkeypatch.setattr(readiness, "FREE_BYTES_MIN", 2**62)
    response = get(server, "/readyz")
    assert (response.status_code, response.json()["error"]["what"]) == (503, "the disk is full")


def test_server_without_its_database_is_alive_but_not_ready(server: LiveServer) -> None:
    server.node.database.close()
    assert get(server, "/healthz").status_code == 200
    response = get(server, "/readyz")
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.json() == {"error": {"code": 50300, "what": "the database does not answer"}}
