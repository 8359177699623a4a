"""Nodes whose clocks are an hour ahead and an hour behind: leases, tokens and signals go by the database's clock."""

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from tests.faults.client import Client, register
from tests.faults.commands_collector import COMMANDS
from tests.faults.commands_site import ADMIN, add_collector, add_miner, add_site
from tests.faults.nodes_cluster import Cluster, cluster, seconds_until
from tests.faults.server_process import PROGRAM, ServerProcess

pytestmark = pytest.mark.slow

LEASE_SECONDS = 4
FLAGS = (
    *("--command-lease-duration-sec", str(LEASE_SECONDS), "--default-retry-backoff-sec", "1"),
    *("--outbox-lease-seconds", "2"),
)


class OddClocks:
    def __init__(self, running: Cluster) -> None:
        self.cluster = running
        self.clients: list[Client] = []
        self.ahead = self._add("+1h")
        self.behind = self._add("-1h")
        running.wait_until_ready()
        self.nodes = (self.ahead, self.behind)

    def _add(self, offset: str) -> ServerProcess:
        # Waiting is done by the monotonic clock, which nobody can set.
        command = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "faketime", "-f", offset, PROGRAM)
        return self.cluster.add(*FLAGS, command=command)

    def client(self, node: ServerProcess, bearer: str | None = None) -> Client:
        """One that is closed in the end."""
        self.clients.append(Client(node.port, bearer or self.cluster.prepared.key))
        return self.clients[-1]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OddClocks]:
    with cluster(tmp_path_factory.mktemp("clocks")) as running:
        odd = OddClocks(running)
        yield odd
        for client in odd.clients:
            client.close()


def test_the_clocks_are_odd(odd: OddClocks) -> None:
    """Else the others would prove nothing: the answers' dates are the nodes' own."""
    dates = [odd.client(node).ask("GET", "/healthz").headers["Date"] for node in odd.nodes]
    ahead, behind = (parsedate_to_datetime(date).timestamp() for date in dates)
    assert ahead - behind == pytest.approx(7200, abs=120)


def test_a_token_is_valid_wherever_it_was_made(odd: OddClocks) -> None:
    for made_at in odd.nodes:
        device = register(odd.client(made_at), odd.cluster.prepared)
        for node in odd.nodes:
            assert odd.client(node, device.token).poll("0-0").status == 204


def test_a_signal_comes_once_whoever_dispatches_it(odd: OddClocks) -> None:
    device = register(odd.client(odd.ahead), odd.cluster.prepared)
    path = f"/apiv1/users/{odd.cluster.prepared.user_id}/devices/{device.id}/signals"
    for number in range(10):
        node = odd.nodes[number % 2]
        assert odd.client(node).ask("POST", path, {"type": "app.numbered", "ref": {"number": number}}).status < 300
    client = odd.client(odd.behind, device.token)
    seen: list[int] = []
    cursor = "0-0"

    def all_came() -> bool:
        nonlocal cursor
        reply = client.poll(cursor, limit=100)
        if reply.status == 200:
            cursor = reply.data["cursor"]
            seen.extend(signal["ref"]["number"] for signal in reply.data["signals"])
        return len(seen) >= 10

    seconds_until(all_came)
    assert seen == list(range(10))
    assert client.poll(cursor).status == 204


def test_a_lease_ends_when_the_database_says_so(odd: OddClocks) -> None:
    operator = odd.client(odd.ahead)
    site_id = add_site(operator, "odd")
    miner = add_miner(operator, site_id)
    first, second = (add_collector(operator, site_id, name) for name in ("first", "second"))
    for taking, other in ((odd.ahead, odd.behind), (odd.behind, odd.ahead)):
        order = {"site_id": site_id, "miner_id": miner, "command_type": "POWER_MODE", "params": {"mode": "LOW"}}
        assert odd.client(taking).ask("POST", f"{ADMIN}/commands", order).status < 300
        asked_at = time.monotonic()
        held = poll(odd, taking, first.token)
        assert len(held) == 1
        # Nobody else is handed it while the lease lasts, at either node.
        attempts: list[Any] = []

        def handed_on(node: ServerProcess = other, attempts: list[Any] = attempts) -> bool:
            attempts += poll(odd, node, second.token)
            return bool(attempts)

        seconds_until(handed_on)
        again_at = time.monotonic()
        assert again_at - asked_at >= LEASE_SECONDS
        assert (attempts[0]["command_id"], attempts[0]["attempt"]) == (held[0]["command_id"], 2)
        # Within its lease, at the other node: it has not run out early.
        done = {"status": "succeeded", "result_code": 0, "nonce": attempts[0]["nonce"]}
        path = f"{COMMANDS}/{held[0]['command_id']}/ack"
        reply = odd.client(taking, second.token).ask("POST", path, done)
        if time.monotonic() - again_at < LEASE_SECONDS:
            assert reply.status == 200, reply


def poll(odd: OddClocks, node: ServerProcess, token: str) -> list[Any]:
    client = Client(node.port, token)
    try:
        commands: list[Any] = client.ask("GET", f"{COMMANDS}/poll").body["commands"]
    finally:
        client.close()
    return commands
