"""Attack: read the metrics of the server as a stranger, and find its tenants in the labels."""

from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.server.config.setting_types import Address
from tests.server.live_server import LiveServer

TOKEN = "a-token-of-the-scraper"
VALID = {"authorization": f"Bearer {TOKEN}"}


def get(port: int, path: str = "/metrics", **options: Any) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{port}{path}", **options)


@pytest.mark.parametrize(
    "headers",
    [{}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}, {"authorization": TOKEN}],
)
def test_metrics_with_a_token_are_refused_without_it(tmp_path: Path, headers: dict[str, str]) -> None:
    with closing(LiveServer(tmp_path, has_services=False, metrics_token=TOKEN)) as server:
        for port in (server.fast_port, server.plain_port):
            refused = get(port, headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"].startswith('Bearer realm="restante"')
            assert "restante_" not in refused.text
            assert "restante_commits_total" in get(port, headers=VALID).text


def test_metrics_at_an_address_of_their_own_are_not_at_the_main_one(tmp_path: Path) -> None:
    own = Address("127.0.0.1", 0)
    with closing(LiveServer(tmp_path, metrics_listen=own, metrics_token=TOKEN)) as server:
        server.wait_until(lambda: server.node.metrics.own_port is not None)
        port = server.node.metrics.own_port
        assert port is not None
        assert get(server.fast_port, headers=VALID).status_code == 404
        assert get(port).status_code == 401
        assert get(port, "/healthz", headers=VALID).status_code == 404
        assert httpx.post(f"http://127.0.0.1:{port}/metrics", headers=VALID).status_code == 405
        scraped = get(port, headers=VALID)
        assert scraped.headers["content-type"].startswith("text/plain; version=")
        assert "restante_commits_total" in scraped.text
        with server.connect(port) as connection:
            connection.send(b"GET /metrics HTTP/1.1\r\nx: " + b"x" * 20_000 + b"\r\n\r\n")
            assert connection.is_closed_by_server()
    with pytest.raises(httpx.TransportError):
        get(port)


@pytest.mark.parametrize(("shown", "label"), [(False, "all"), (True, "77")])
def test_labels_have_no_tenants_unless_asked(tmp_path: Path, shown: bool, label: str) -> None:
    with closing(LiveServer(tmp_path, has_services=False, metrics_tenants=shown)) as server:
        counters = server.node.commands.counters
        counters.count_acked(77, "succeeded")
        counters.count_acked(77, "failed")
        text = get(server.fast_port).text
    assert f'commands_acked_total{{site_id="{label}",status="succeeded"}} 1.0' in text
    assert ('site_id="77"' in text) is shown


def test_metrics_of_several_tenants_are_added_up(tmp_path: Path) -> None:
    with closing(LiveServer(tmp_path, has_services=False)) as server:
        for site_id in (1, 2, 3):
            server.node.commands.counters.count_acked(site_id, "succeeded")
        assert 'commands_acked_total{site_id="all",status="succeeded"} 3.0' in get(server.fast_port).text
