"""The master key changes under load, with real server processes: no request fails, also when the change is killed."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity import signing_keys
from restante.identity.master_key import MasterKey, MasterKeySource
from restante.identity.reseal import key_change, resealing
from restante.identity.reseal.sealed_columns import SEALED_COLUMNS
from tests.faults.deployments import Deployment, SingleServer, TwoNodes
from tests.faults.nodes.cluster import running_cluster
from tests.faults.server_process import PROGRAM, environment

ADMIN = "/api/edge/v1/admin"
PASSWORD = "hunter2-of-the-pool"
# So many that the command is still at work when it is killed.
SIGNING_KEYS = 4000
RESEAL_SECONDS = 120.0


@pytest.fixture(params=["sqlite", "postgres"])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    if request.param == "sqlite":
        single = SingleServer(tmp_path)
        try:
            single.start()
            yield single
        finally:
            single.end()
        return
    with running_cluster(tmp_path) as cluster:
        nodes = TwoNodes(cluster)
        nodes.start()
        yield nodes


class Caller(threading.Thread):
    """Uses one server: each round opens a collector's secret, secret parameters and the key of an authority, and seals
    secret parameters and a data key."""

    def __init__(self, port: int, api_key: str, user_id: int, name: str) -> None:
        super().__init__(daemon=True)
        self.problems: list[str] = []
        self.rounds = 0
        self._ended = threading.Event()
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers={"authorization": f"Bearer {api_key}"}, timeout=30
        )
        self._user = f"/apiv1/users/{user_id}"
        self._site = self._created(f"{ADMIN}/sites", {"name": name})["id"]
        self._miner = self._created(f"{ADMIN}/miners", {"site_id": self._site, "name": name})["id"]
        collector = self._created(f"{ADMIN}/devices", {"site_id": self._site, "device_name": name})
        self._collector = {"authorization": f"Bearer {collector['token']}"}
        ca = self._created(f"{self._user}/cas", {"name": name})["id"]
        account = {"name": name, "email": "pki@example.com", "provider": "self", "ca_id": ca}
        acct_id = self._created(f"{self._user}/acme-accounts", account)["id"]
        body = {"domain_name": "site.example.com", "acct_id": acct_id}
        self._certificate = self._created(f"{self._user}/certificates", body)["id"]

    def _created(self, path: str, body: object) -> dict[str, object]:
        response = self._client.post(path, json=body)
        assert response.status_code in (200, 201), response.text
        found: dict[str, object] = response.json().get("data", response.json())
        return found

    def run(self) -> None:
        while not self._ended.is_set():
            self.use_once()
            self.rounds += 1

    def use_once(self) -> None:
        params = {"pool_url": "stratum+tcp://p.example:1", "pool_password": PASSWORD}
        body = {"site_id": self._site, "miner_id": self._miner, "command_type": "POOL_SET", "params": params}
        self._expect(self._client.post(f"{ADMIN}/commands", json={**body, "priority": 1}), 201)
        polled = self._client.get("/api/edge/v1/commands/poll?limit=10", headers=self._collector)
        if polled.status_code != 200:
            self.problems.append(f"poll: {polled.status_code} {polled.text}")
        elif any(each["params"]["pool_password"] != PASSWORD for each in polled.json()["commands"]):
            self.problems.append(f"poll: {polled.text}")
        self._expect(self._client.post(f"{self._user}/certificates/{self._certificate}/issues"), 201, 200)

    def _expect(self, response: httpx.Response, *codes: int) -> None:
        if response.status_code not in codes:
            self.problems.append(f"{response.request.url}: {response.status_code} {response.text}")

    def end(self) -> None:
        self._ended.set()
        self.join()
        self.close()

    def close(self) -> None:
        self._client.close()


def add_signing_keys(conn: Connection, master: MasterKey) -> None:
    for _ in range(SIGNING_KEYS):
        signing_keys.rotate(conn, signing_keys.make(master), 3600)


def started_reseal(deployment: Deployment) -> "subprocess.Popen[str]":
    # TwoNodes names its database by a flag of the servers.
    flags = deployment.nodes[0].flags
    database = ["--database", flags[flags.index("--database") + 1]] if "--database" in flags else []
    command = [PROGRAM, "keys", "reseal", "--settle", "1", "--data", str(deployment.prepared.data), *database]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def count_current(database: Database, master: MasterKey, limit: int = SIGNING_KEYS * 2) -> int:
    """How many of the first values of a column are under the key."""
    column = SEALED_COLUMNS[0]
    rows = database.read_now(lambda conn: conn.all(column.page(is_first=True), limit=limit))
    return sum(master.is_current(row[column.column], column.purpose_of(row)) for row in rows)


def test_master_key_changes_under_load_and_after_a_kill(deployment: Deployment) -> None:
    prepared = deployment.prepared
    source = MasterKeySource(prepared.data / "master.key", None)
    old = source.find()
    assert old is not None
    with deployment.opened() as database:
        database.write_now(add_signing_keys, old)
    callers = [Caller(port, prepared.key, prepared.user_id, f"site {port}") for port in deployment.ports]
    for caller in callers:
        caller.start()
    killed = started_reseal(deployment)
    with deployment.opened() as database:
        while True:
            assert killed.poll() is None, killed.communicate()
            new = source.find_next()
            # The first value alone: reading all takes longer than the command needs for its pass.
            if new is not None and count_current(database, new, 1):
                break
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        assert 0 < count_current(database, new) < SIGNING_KEYS
    assert source.find_next() is not None, "it was killed before the end"

    first, second = started_reseal(deployment), started_reseal(deployment)
    for run in (first, second):
        output, error = run.communicate(timeout=RESEAL_SECONDS)
        assert run.returncode == 0, error
        assert "each was opened with it" in output
    for caller in callers:
        caller.end()
    assert [caller.problems for caller in callers] == [[] for _ in callers]
    assert all(caller.rounds for caller in callers)

    current = source.find()
    assert current is not None
    assert current.key_id == new.key_id
    with deployment.opened() as database:
        result = resealing.run_pass(database, current, lambda _column, _result: None)
        assert (result.resealed, result.unreadable) == (0, 0), result
        assert database.read_now(key_change.unfinished) is None


def test_servers_start_with_the_new_key_alone(deployment: Deployment) -> None:
    prepared = deployment.prepared
    run = started_reseal(deployment)
    _, error = run.communicate(timeout=RESEAL_SECONDS)
    assert run.returncode == 0, error
    (prepared.data / "master.key.old").unlink()
    for node in deployment.nodes:
        node.kill()
        node.start()
    for node in deployment.nodes:
        node.wait_until_ready()
    caller = Caller(deployment.ports[0], prepared.key, prepared.user_id, "site after the change")
    caller.use_once()
    caller.close()
    assert caller.problems == []
