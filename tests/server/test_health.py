from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from restante.server import health
from restante.server.roles import ROLES
from tests.server.serving import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.close()


def get(served: Served, path: str) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{served.fast_port}{path}")


def test_a_server_that_runs_is_alive_and_ready_and_says_what_it_does(served: Served) -> None:
    assert get(served, "/healthz").json() == {"data": {"status": "ok", "roles": list(ROLES)}}
    assert get(served, "/readyz").json() == {"data": {"status": "ready", "roles": list(ROLES)}}


def test_a_server_with_a_full_disk_is_not_ready(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    # More room than any disk has: what is free is too little.
    monkeypatch.setattr(health, "FREE_BYTES_MIN", 2**62)
    refused = get(served, "/readyz")
    assert (refused.status_code, refused.json()["error"]["what"]) == (503, "the disk is full")


def test_a_server_without_its_database_is_alive_but_not_ready(served: Served) -> None:
    served.node.database.close()
    assert get(served, "/healthz").status_code == 200
    refused = get(served, "/readyz")
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1"
    assert refused.json() == {"error": {"code": 50300, "what": "the database does not answer"}}
