"""Servers push events to real receivers and are killed meanwhile: each event arrives, always with the same bytes, in
order, from one node at a time, and not again after its acceptance is recorded. Two nodes on one PostgreSQL are killed
in turn; RESTANTE_FAULT_KILLS sets how often, because `make test` has time for only a few kills.

The checker is tested too: it must find the bugs that are planted into other builds.
"""

import os
import signal
import sys
from pathlib import Path

import pytest

from restante.cli.database import open_embedded_database
from restante.database.queries import Query
from restante.server.data_folder import DataFolder
from tests.events.receiver_process import receiving, wait_until
from tests.events.tls_files import TlsFiles, make_tls_files
from tests.faults.client import Client
from tests.faults.deployments import SingleServer, TwoNodes
from tests.faults.nodes.cluster import running_cluster
from tests.faults.push.campaign import Plan, PushCampaign, Report, add_client, flags_for
from tests.faults.server_process import ServerProcess, prepare_data

pytestmark = pytest.mark.slow

NODE_KILLS = int(os.environ.get("RESTANTE_FAULT_KILLS", "4"))
FULL_COUNT = 20

EVENTS = 40
PATH = "/status/202"

_STATES = Query("states", "SELECT jti, status FROM event_inbox ORDER BY id")


def states(data: Path) -> list[str]:
    with open_embedded_database(DataFolder(data)) as database:
        return [row["status"] for row in database.read_now(lambda conn: conn.all(_STATES))]


def test_killed_server_continues_pushing_after_a_restart(tmp_path: Path) -> None:
    tls = make_tls_files(tmp_path)
    prepared = prepare_data(tmp_path / "data")
    with receiving(tls, tmp_path / "record") as receiver:
        with open_embedded_database(DataFolder(prepared.data)) as database:
            client_id = database.write_now(add_client, receiver.url(PATH))
        flags = ("--push-allowed", "127.0.0.0/8,::1", "--push-ca", str(tls.authority))
        server = ServerProcess(prepared.data, *flags)
        try:
            server.start()
            server.wait_until_ready()
            operator = Client(server.port, prepared.key)
            for number in range(EVENTS):
                event = {"client_id": client_id, "sub": f"https://bank.example/{number}", "events": {"urn:x:y": {}}}
                assert operator.request("POST", "/admin/events", event).status == 201
            operator.close()
            wait_until(lambda: len(receiver.bodies(PATH)) >= EVENTS // 8, "the first pushes")
            server.kill()
            server.start()
            server.wait_until_ready()
            wait_until(lambda: len(set(receiver.bodies(PATH))) == EVENTS, "all pushes")
            server.send_signal(signal.SIGTERM)
            server.wait_for_exit()
        finally:
            server.end()
        assert states(prepared.data) == ["acknowledged"] * EVENTS
        # At most one event was sent again after the kill.
        first_seen = list(dict.fromkeys(receiver.bodies(PATH)))
        assert len(first_seen) == EVENTS
        assert len(receiver.bodies(PATH)) <= EVENTS + 1


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


def command_with(bug: str, mode: str = "survive") -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.faults.push.planted_bugs", bug, mode)


def test_kills_of_two_nodes_in_turn_leave_every_event_pushed_in_order(
    tmp_path: Path, tls: TlsFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_cluster(tmp_path) as cluster:
        deployment = TwoNodes(cluster, *flags_for(tls), command=command_with("short_leases"))
        report = PushCampaign(tmp_path, Plan(seed=1, kills=NODE_KILLS), deployment, tls).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\nPush, two nodes: {report}\n")
    assert report.unexpected == []
    assert report.verdict.violations == []
    assert report.verdict.published > 50
    if NODE_KILLS >= FULL_COUNT:
        assert_coverage(report)


def assert_coverage(report: Report) -> None:
    """Everything that the checker looks for has happened often enough."""
    assert report.verdict.interrupted > 5
    assert report.verdict.repeated > 3
    assert report.verdict.refused > 50
    assert report.verdict.failed > 50


def campaign_with(bug: str, folder: Path, tls: TlsFiles) -> PushCampaign:
    """One server with a planted bug, and events for two receivers."""
    deployment = SingleServer(folder, *flags_for(tls))
    deployment.nodes[0].command = command_with(bug)
    return PushCampaign(folder, Plan(seed=2, kills=1, receivers=2, uptime_seconds=(0, 0.5)), deployment, tls)


def test_bug_acknowledging_before_sending_is_found(tmp_path: Path, tls: TlsFiles) -> None:
    bug = "acknowledge_before_sending"
    campaign = campaign_with(bug, tmp_path, tls)
    report = campaign.run_with_self_kills(command_with(bug, "crash"), command_with(bug))
    assert report.verdict.found["lost"]
    assert report.verdict.found["unsolicited"]


def test_bug_never_acknowledging_is_found(tmp_path: Path, tls: TlsFiles) -> None:
    assert campaign_with("never_acknowledge", tmp_path, tls).run_until_found("repeated").found["repeated"]


def test_bug_delivering_newest_first_is_found(tmp_path: Path, tls: TlsFiles) -> None:
    verdict = campaign_with("deliver_newest_first", tmp_path, tls).run_until_found("out_of_order")
    assert verdict.found["out_of_order"]


def test_bug_ignoring_claims_of_other_nodes_is_found(tmp_path: Path, tls: TlsFiles) -> None:
    with running_cluster(tmp_path) as cluster:
        deployment = TwoNodes(cluster, *flags_for(tls), command=command_with("ignore_claims"))
        verdict = PushCampaign(tmp_path, Plan(seed=3, kills=0), deployment, tls).run_until_found("concurrent")
    assert verdict.found["concurrent"]
