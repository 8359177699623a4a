"""PostgreSQL keeps its connections open and answers nothing: its processes are stopped (promise 13 of SECURITY.md)."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.faults.client import Client, Response, register
from tests.faults.commands.collector import COMMANDS
from tests.faults.nodes.cluster import Cluster, running_cluster, seconds_until
from tests.faults.server_process import TIMEOUT_SECONDS

pytestmark = pytest.mark.slow

FLAGS = ("--database-deadline-seconds", "1", "--shutdown-seconds", "3", "--database-writers", "2")
EVENTS = "/events"


@contextmanager
def clients_of(cluster: Cluster, *bearers: str) -> Iterator[list[Client]]:
    clients = [Client(cluster.nodes[0].port, bearer) for bearer in bearers]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def assert_unavailable(response: Response, *code: str) -> None:
    assert response.status == 503, response
    assert int(response.headers["Retry-After"]) >= 1
    assert response.headers["Content-Type"].startswith("application/json")
    body = response.body
    for name in code:
        body = body[name]
    assert body, response


def test_requests_get_503_and_idle_polls_go_on_and_the_node_stops(tmp_path: Path) -> None:
    with running_cluster(tmp_path, *FLAGS) as cluster, ThreadPoolExecutor(1) as threads:
        node, prepared = cluster.add("--log-level", "info"), cluster.prepared
        # Before that, nothing is answered from memory.
        seconds_until(lambda: "connected to the other nodes" in node.log_text())
        with closing(Client(node.port, prepared.key)) as operator:
            device, other = register(operator, prepared), register(operator, prepared)
            signals = f"/apiv1/users/{prepared.user_id}/devices/{device.id}/signals"
            bearers = (device.token, other.token, "ct_unknown", "unknown")
            with clients_of(cluster, *bearers) as (idle, waiting, collector, client):
                assert idle.poll("0-0").status == 204

                with cluster.postgres.hanging():
                    for _ in range(3):
                        response = operator.request("POST", signals, {"type": "app.test", "ref": {}})
                        assert_unavailable(response, "error", "code")
                    assert_unavailable(collector.request("GET", f"{COMMANDS}/poll"), "error")
                    assert_unavailable(client.request("POST", EVENTS, {}), "Code")
                    assert_unavailable(operator.request("GET", "/readyz"), "error", "what")
                    # From memory, by the fast lane and by the application.
                    assert idle.poll("0-0").status == 204
                    assert idle.poll("0-0", fast_lane=False).status == 204
                    assert idle.poll("0-0", wait=1).status == 204
                node.wait_until_ready()
                assert operator.request("POST", signals, {"type": "app.test", "ref": {}}).status == 202
                parked = threads.submit(waiting.poll, "0-0", 30)
                node.wait_for_metric("restante_parked_polls", 1)

                with cluster.postgres.hanging():
                    operator.send_request("POST", signals, {"type": "app.test", "ref": {}})
                    # The node has answered this later request, so it has received the one before.
                    assert idle.request("GET", "/healthz").status == 200
                    node.send_signal(signal.SIGTERM)
                    # The database hangs until the process has ended.
                    assert node.wait_for_exit(TIMEOUT_SECONDS) == 0, node.log_text()
                    assert parked.result(TIMEOUT_SECONDS).status == 204
                    assert_unavailable(operator.receive_response(), "error", "code")
                assert "Traceback" not in node.log_text()
