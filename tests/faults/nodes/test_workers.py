"""Several worker processes behind one address: killed, replaced, stopped, and refused on the embedded database."""

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.client import Client, register
from tests.faults.nodes.cluster import Cluster, running_cluster, seconds_until
from tests.faults.server_process import PROGRAM, TIMEOUT_SECONDS, ServerProcess, environment

pytestmark = pytest.mark.slow

WORKERS = 3
# Of one device, at all workers together.
POLLS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("workers")) as cluster:
        cluster.add("--workers", str(WORKERS), "--device-parked-polls-max", str(POLLS))
        yield cluster


@pytest.fixture
def server(cluster: Cluster) -> ServerProcess:
    server = cluster.nodes[0]
    seconds_until(lambda: workers_up(server) == [1.0] * WORKERS)
    return server


def workers_up(server: ServerProcess) -> list[float]:
    return [server.metric(f'restante_worker_up{{worker="{number}"}}') for number in range(1, WORKERS + 1)]


def test_change_at_one_worker_wakes_polls_at_all_workers(cluster: Cluster, server: ServerProcess) -> None:
    operator = Client(server.port, cluster.prepared.key)
    device = register(operator, cluster.prepared)
    with ThreadPoolExecutor(POLLS) as threads:
        clients = [Client(server.port, device.token) for _ in range(POLLS)]
        polls = [threads.submit(client.poll, "0-0", 30) for client in clients]
        seconds_until(lambda: sum(parked_polls(server)) == POLLS)
        path = f"/apiv1/users/{cluster.prepared.user_id}/devices/{device.id}/signals"
        assert operator.request("POST", path, {"type": "app.one", "ref": {}}).status < 300
        for poll in polls:
            assert [signal["type"] for signal in poll.result(TIMEOUT_SECONDS).data["signals"]] == ["app.one"]
    for client in (*clients, operator):
        client.close()


def test_address_is_printed_once_by_all_workers(server: ServerProcess) -> None:
    assert server.log_text().count(f"serves http://127.0.0.1:{server.port}") == 1


def parked_polls(server: ServerProcess) -> list[float]:
    return [server.metric(f'restante_parked_polls{{worker="{number}"}}') for number in range(1, WORKERS + 1)]


def test_killed_worker_is_replaced_while_the_others_serve(cluster: Cluster, server: ServerProcess) -> None:
    before = server.workers()
    assert len(before) == WORKERS
    os.kill(before[0], signal.SIGKILL)
    operator = Client(server.port, cluster.prepared.key)
    assert operator.request_until_answered("GET", "/readyz").status == 200
    operator.close()
    seconds_until(lambda: len(server.workers()) == WORKERS and before[0] not in server.workers())
    seconds_until(lambda: workers_up(server) == [1.0] * WORKERS)
    assert set(before[1:]) < set(server.workers())


def test_workers_stop_with_the_supervisor(cluster: Cluster) -> None:
    """Uses its own server, because other tests still need the shared one."""
    server = cluster.add("--workers", "2")
    server.wait_until_ready()
    seconds_until(lambda: len(server.workers()) == 2)
    workers = server.workers()
    server.send_signal(signal.SIGTERM)
    assert server.wait_for_exit() == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)

    server.start()
    server.wait_until_ready()
    seconds_until(lambda: len(server.workers()) == 2)
    workers = server.workers()
    server.kill()
    seconds_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_several_workers_are_refused_on_the_embedded_database(tmp_path: Path) -> None:
    done = subprocess.run(
        [PROGRAM, "serve", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0", "--workers", "2"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 1
    assert "workers: got 2, but only one process can use the embedded database" in done.stderr
