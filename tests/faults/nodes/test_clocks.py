"""Nodes whose clocks are an hour ahead and an hour behind: leases, tokens and signals use the database's clock."""

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from tests.faults.client import Client, register
from tests.faults.commands.collector import COMMANDS
from tests.faults.commands.site import ADMIN, add_collector, add_miner, add_site
from tests.faults.nodes.cluster import Cluster, running_cluster, seconds_until
from tests.faults.server_process import PROGRAM, ServerProcess

pytestmark = pytest.mark.slow

LEASE_SECONDS = 4
FLAGS = (
    *("--command-lease-duration-sec", str(LEASE_SECONDS), "--default-retry-backoff-sec", "1"),
    *("--outbox-lease-seconds", "2"),
)


class SkewedNodes:
    """Two nodes on one database, with the clock of one ahead and of the other behind."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.clients: list[Client] = []
        self.ahead = self._add("+1h")
        self.behind = self._add("-1h")
        cluster.wait_until_ready()
        self.nodes = (self.ahead, self.behind)

    def _add(self, offset: str) -> ServerProcess:
        # Keep the monotonic clock, which the server uses for waiting.
        command = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "faketime", "-f", offset, PROGRAM)
        return self.cluster.add(*FLAGS, command=command)

    def client(self, node: ServerProcess, bearer: str | None = None) -> Client:
        """A client that is closed at the end."""
        self.clients.append(Client(node.port, bearer or self.cluster.prepared.key))
        return self.clients[-1]


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SkewedNodes]:
    with running_cluster(tmp_path_factory.mktemp("clocks")) as cluster:
        skewed = SkewedNodes(cluster)
        yield skewed
        for client in skewed.clients:
            client.close()


def test_clocks_of_the_nodes_differ(skewed: SkewedNodes) -> None:
    """Otherwise the other tests would prove nothing. The Date header shows a node's own clock."""
    dates = [skewed.client(node).request("GET", "/healthz").headers["Date"] for node in skewed.nodes]
    ahead, behind = (parsedate_to_datetime(date).timestamp() for date in dates)
    assert ahead - behind == pytest.approx(7200, abs=120)


def test_token_is_valid_on_all_nodes(skewed: SkewedNodes) -> None:
    for issuer in skewed.nodes:
        device = register(skewed.client(issuer), skewed.cluster.prepared)
        for node in skewed.nodes:
            assert skewed.client(node, device.token).poll("0-0").status == 204


def test_signal_is_delivered_once_whichever_node_dispatches_it(skewed: SkewedNodes) -> None:
    device = register(skewed.client(skewed.ahead), skewed.cluster.prepared)
    path = f"/apiv1/users/{skewed.cluster.prepared.user_id}/devices/{device.id}/signals"
    for number in range(10):
        node = skewed.nodes[number % 2]
        assert (
            skewed.client(node).request("POST", path, {"type": "app.numbered", "ref": {"number": number}}).status < 300
        )
    client = skewed.client(skewed.behind, device.token)
    seen: list[int] = []
    cursor = "0-0"

    def all_delivered() -> bool:
        nonlocal cursor
        response = client.poll(cursor, limit=100)
        if response.status == 200:
            cursor = response.data["cursor"]
            seen.extend(signal["ref"]["number"] for signal in response.data["signals"])
        return len(seen) >= 10

    seconds_until(all_delivered)
    assert seen == list(range(10))
    assert client.poll(cursor).status == 204


def test_lease_ends_by_the_clock_of_the_database(skewed: SkewedNodes) -> None:
    operator = skewed.client(skewed.ahead)
    site_id = add_site(operator, "skewed")
    miner = add_miner(operator, site_id)
    first, second = (add_collector(operator, site_id, name) for name in ("first", "second"))
    for claiming, other in ((skewed.ahead, skewed.behind), (skewed.behind, skewed.ahead)):
        command = {"site_id": site_id, "miner_id": miner, "command_type": "POWER_MODE", "params": {"mode": "LOW"}}
        assert skewed.client(claiming).request("POST", f"{ADMIN}/commands", command).status < 300
        polled_at = time.monotonic()
        held = poll(skewed, claiming, first.token)
        assert len(held) == 1
        # No other collector gets it while the lease lasts, at either node.
        attempts: list[Any] = []

        def is_dispatched_again(node: ServerProcess = other, attempts: list[Any] = attempts) -> bool:
            attempts += poll(skewed, node, second.token)
            return bool(attempts)

        seconds_until(is_dispatched_again)
        again_at = time.monotonic()
        assert again_at - polled_at >= LEASE_SECONDS
        assert (attempts[0]["command_id"], attempts[0]["attempt"]) == (held[0]["command_id"], 2)
        # The ACK comes within the lease, at the other node: the lease has not ended early.
        done = {"status": "succeeded", "result_code": 0, "nonce": attempts[0]["nonce"]}
        path = f"{COMMANDS}/{held[0]['command_id']}/ack"
        response = skewed.client(claiming, second.token).request("POST", path, done)
        if time.monotonic() - again_at < LEASE_SECONDS:
            assert response.status == 200, response


def poll(skewed: SkewedNodes, node: ServerProcess, token: str) -> list[Any]:
    client = Client(node.port, token)
    try:
        commands: list[Any] = client.request("GET", f"{COMMANDS}/poll").body["commands"]
    finally:
        client.close()
    return commands
