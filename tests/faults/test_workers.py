"""Several workers behind one address, as real processes: killed, replaced, told to stop; refused where they must be."""

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.client import Client, register
from tests.faults.nodes_cluster import Cluster, cluster, seconds_until
from tests.faults.server_process import PATIENCE_SECONDS, PROGRAM, ServerProcess, environment

pytestmark = pytest.mark.slow

WORKERS = 3


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("workers")) as running:
        running.add("--workers", str(WORKERS))
        yield running


@pytest.fixture
def server(running: Cluster) -> ServerProcess:
    server = running.nodes[0]
    seconds_until(lambda: up(server) == [1.0] * WORKERS)
    return server


def up(server: ServerProcess) -> list[float]:
    return [server.metric(f'restante_worker_up{{worker="{number}"}}') for number in range(1, WORKERS + 1)]


def test_a_change_at_one_worker_wakes_polls_at_all(running: Cluster, server: ServerProcess) -> None:
    operator = Client(server.port, running.prepared.key)
    device = register(operator, running.prepared)
    count = 12
    with ThreadPoolExecutor(count) as threads:
        clients = [Client(server.port, device.token) for _ in range(count)]
        polls = [threads.submit(client.poll, "0-0", 30) for client in clients]
        seconds_until(lambda: sum(parked(server)) == count)
        path = f"/apiv1/users/{running.prepared.user_id}/devices/{device.id}/signals"
        assert operator.ask("POST", path, {"type": "app.one", "ref": {}}).status < 300
        for poll in polls:
            assert [signal["type"] for signal in poll.result(PATIENCE_SECONDS).data["signals"]] == ["app.one"]
    for client in (*clients, operator):
        client.close()


def parked(server: ServerProcess) -> list[float]:
    return [server.metric(f'restante_parked_polls{{worker="{number}"}}') for number in range(1, WORKERS + 1)]


def test_a_worker_that_was_killed_is_replaced_and_the_others_serve_on(running: Cluster, server: ServerProcess) -> None:
    before = server.workers()
    assert len(before) == WORKERS
    os.kill(before[0], signal.SIGKILL)
    operator = Client(server.port, running.prepared.key)
    assert operator.ask_until_answered("GET", "/readyz").status == 200
    operator.close()
    seconds_until(lambda: len(server.workers()) == WORKERS and before[0] not in server.workers())
    seconds_until(lambda: up(server) == [1.0] * WORKERS)
    assert set(before[1:]) < set(server.workers())


def test_all_stop_with_the_supervisor(running: Cluster) -> None:
    """A server of its own: the others still need theirs."""
    server = running.add("--workers", "2")
    server.wait_until_ready()
    seconds_until(lambda: len(server.workers()) == 2)
    workers = server.workers()
    server.tell(signal.SIGTERM)
    assert server.wait_for_exit() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)

    server.start()
    server.wait_until_ready()
    seconds_until(lambda: len(server.workers()) == 2)
    workers = server.workers()
    server.kill()
    seconds_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_more_than_one_is_refused_on_the_embedded_database(tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--workers", "2"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 1
    assert "workers: 2 is given, but the embedded database is one process's alone" in done.stderr
