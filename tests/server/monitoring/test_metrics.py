import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from restante.database.connection import Connection
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.server.monitoring.metrics import METRICS
from tests.server.live_server import LiveServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    # Without background services the metrics count only the work of the test.
    server = LiveServer(tmp_path, has_services=False)
    yield server
    server.close()


def scrape(server: LiveServer) -> dict[str, float]:
    response = httpx.get(f"http://127.0.0.1:{server.fast_port}/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    return {
        name: float(value)
        for name, value in re.findall(r"^([a-z_]+(?:\{.*\})?) ([-+.0-9eE]+)$", response.text, re.MULTILINE)
    }


def test_every_declared_metric_is_exposed(server: LiveServer) -> None:
    text = httpx.get(f"http://127.0.0.1:{server.fast_port}/metrics").text
    names = {name.removesuffix("_total") for name in re.findall(r"^# TYPE (\w+)", text, re.MULTILINE)}
    assert set(METRICS) <= names
    assert "process_resident_memory_bytes" in names


def test_requests_are_counted_by_method_route_and_status(server: LiveServer) -> None:
    base_url = f"http://127.0.0.1:{server.fast_port}"
    httpx.get(base_url + "/healthz")
    httpx.get(base_url + "/apiv1/users/17/devices/99")
    values = scrape(server)
    assert values['restante_http_requests_total{method="GET",route="/healthz",status="200"}'] == 1
    # The label is the pattern of the route, not the path of the request, so there are few label values.
    route = "/apiv1/users/{user_id}/devices/{device_id}"
    assert values[f'restante_http_requests_total{{method="GET",route="{route}",status="401"}}'] == 1


def test_outbox_rows_and_their_commit_are_counted(server: LiveServer) -> None:
    def enqueue(conn: Connection) -> None:
        for _ in range(3):
            outbox.enqueue(conn, 1, Signal("test", conn.now_ms, {}))

    before = scrape(server)
    server.node.database.write_now(enqueue)
    after = scrape(server)
    assert after['restante_outbox_rows{status="pending"}'] == 3
    assert after['restante_outbox_rows{status="failed"}'] == 0
    assert after["restante_commits_total"] - before["restante_commits_total"] == 1
    assert after["restante_writes_total"] - before["restante_writes_total"] == 1


def test_idle_polls_are_counted_and_write_nothing(server: LiveServer) -> None:
    node = server.node
    server.call(node.updates.poll.waiters.advance, 7, b"0-0")
    before = scrape(server)
    for _ in range(5):
        assert server.call(node.updates.poll.admit_idle, 7, b"0-0") is not None
    after = scrape(server)
    assert after['restante_polls_total{outcome="idle"}'] - before['restante_polls_total{outcome="idle"}'] == 5
    assert after["restante_known_tails"] == 1
    assert after["restante_commits_total"] == before["restante_commits_total"]
