import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from restante.database.connection import Connection
from restante.delivery import outbox
from restante.delivery.signals import Signal
from restante.server.metrics import METRICS
from tests.server.serving import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    # Without background services: nothing but what a test does is counted.
    served = Served(tmp_path, is_still=True)
    yield served
    served.close()


def scrape(served: Served) -> dict[str, float]:
    answer = httpx.get(f"http://127.0.0.1:{served.fast_port}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        name: float(value)
        for name, value in re.findall(r"^([a-z_]+(?:\{.*\})?) ([-+.0-9eE]+)$", answer.text, re.MULTILINE)
    }


def test_every_metric_is_given_out(served: Served) -> None:
    names = {name.partition("{")[0].removesuffix("_total") for name in scrape(served)}
    assert set(METRICS) <= names
    assert "process_resident_memory_bytes" in names


def test_requests_are_counted_by_route_and_status(served: Served) -> None:
    base = f"http://127.0.0.1:{served.fast_port}"
    httpx.get(base + "/healthz")
    httpx.get(base + "/apiv1/users/17/devices/99")
    counted = scrape(served)
    assert counted['restante_http_requests_total{method="GET",route="/healthz",status="200"}'] == 1
    # The route's pattern, never the path a caller chose: labels stay few.
    route = "/apiv1/users/{user_id}/devices/{device_id}"
    assert counted[f'restante_http_requests_total{{method="GET",route="{route}",status="401"}}'] == 1


def test_the_outbox_is_counted(served: Served) -> None:
    def enqueue(conn: Connection) -> None:
        for _ in range(3):
            outbox.enqueue(conn, 1, Signal("test", conn.now_ms, {}))

    before = scrape(served)
    served.node.database.write_now(enqueue)
    after = scrape(served)
    assert after['restante_outbox_rows{status="pending"}'] == 3
    assert after['restante_outbox_rows{status="failed"}'] == 0
    assert after["restante_commits_total"] - before["restante_commits_total"] == 1
    assert after["restante_writes_total"] - before["restante_writes_total"] == 1


def test_idle_polls_are_counted_and_write_nothing(served: Served) -> None:
    node = served.node
    served.call(node.poll.bell.hear, 7, b"0-0")
    before = scrape(served)
    for _ in range(5):
        assert served.call(node.poll.idle_answer, 7, b"0-0", b"") is not None
    after = scrape(served)
    assert after['restante_polls_total{outcome="idle"}'] - before['restante_polls_total{outcome="idle"}'] == 5
    assert after["restante_known_tails"] == 1
    assert after["restante_commits_total"] == before["restante_commits_total"]
