"""Events pushed to real receivers by servers that are killed meanwhile: each arrives, with one and the same bytes, in
its order, from one node at a time, and not again once it is written down that it was taken. Two nodes on one PostgreSQL
are killed in turn; how often is set by RESTANTE_FAULT_KILLS, as `make test` has time for a few.

And the checker that says so is itself put to the test: on builds with a fault in them it must find the fault.
"""

import os
import signal
import sys
from pathlib import Path

import pytest

from restante.cli.opening import opened_in
from restante.database.queries import Query
from restante.server.data_folder import DataFolder
from tests.events.receiver_process import receiving, until
from tests.events.tls_files import TlsFiles, make_tls_files
from tests.faults.client import Client
from tests.faults.nodes_cluster import cluster
from tests.faults.places import Alone, TwoNodes
from tests.faults.push_campaign import Plan, PushCampaign, Report, add_client, flags_for
from tests.faults.server_process import ServerProcess, prepare

pytestmark = pytest.mark.slow

NODE_KILLS = int(os.environ.get("RESTANTE_FAULT_KILLS", "4"))
FULL_COUNT = 20

EVENTS = 40
PATH = "/answer/202"

_STATES = Query("states", "SELECT jti, status FROM event_inbox ORDER BY id")


def states(data: Path) -> list[str]:
    with opened_in(DataFolder(data)) as database:
        return [row["status"] for row in database.read_now(lambda conn: conn.all(_STATES))]


def test_a_killed_server_pushes_on_where_it_was(tmp_path: Path) -> None:
    tls = make_tls_files(tmp_path)
    prepared = prepare(tmp_path / "data")
    with receiving(tls, tmp_path / "record") as receiver:
        with opened_in(DataFolder(prepared.data)) as database:
            client_id = database.write_now(add_client, receiver.url(PATH))
        flags = ("--push-allowed", "127.0.0.0/8,::1", "--push-ca", str(tls.authority))
        server = ServerProcess(prepared.data, *flags)
        try:
            server.start()
            server.wait_until_ready()
            operator = Client(server.port, prepared.key)
            for number in range(EVENTS):
                event = {"client_id": client_id, "sub": f"https://bank.example/{number}", "events": {"urn:x:y": {}}}
                assert operator.ask("POST", "/admin/events", event).status == 201
            operator.close()
            until(lambda: len(receiver.bodies(PATH)) >= EVENTS // 8, "the first pushes")
            server.kill()
            server.start()
            server.wait_until_ready()
            until(lambda: len(set(receiver.bodies(PATH))) == EVENTS, "all pushes")
            server.tell(signal.SIGTERM)
            server.wait_for_exit()
        finally:
            server.end()
        assert states(prepared.data) == ["acknowledged"] * EVENTS
        # In their order, but for what came again after the kill.
        first_seen = list(dict.fromkeys(receiver.bodies(PATH)))
        assert len(first_seen) == EVENTS
        assert len(receiver.bodies(PATH)) <= EVENTS + 1


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


def command_of(fault: str, *more: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "tests.faults.push_sabotage", fault, *more)


def test_kills_of_two_nodes_in_turn_leave_every_event_pushed_in_its_order(
    tmp_path: Path, tls: TlsFiles, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster(tmp_path) as nodes:
        place = TwoNodes(nodes, *flags_for(tls), command=command_of("short_leases", "live"))
        report = PushCampaign(tmp_path, Plan(seed=1, kills=NODE_KILLS), place, tls).run_with_kills()
    with capsys.disabled():
        sys.stdout.write(f"\nPush, two nodes: {report}\n")
    assert report.surprises == []
    assert report.verdict.violations == []
    assert report.verdict.published > 50
    if NODE_KILLS >= FULL_COUNT:
        assert_it_was_a_trial(report)


def assert_it_was_a_trial(report: Report) -> None:
    """Everything that the checker looks for has had its chance to happen."""
    assert report.verdict.interrupted > 5
    assert report.verdict.repeated > 3
    assert report.verdict.refused > 50
    assert report.verdict.failed > 50


def alone(folder: Path, tls: TlsFiles, fault: str) -> PushCampaign:
    """One server with the fault built in, and events for two receivers."""
    place = Alone(folder, *flags_for(tls))
    place.nodes[0].command = command_of(fault, "live")
    return PushCampaign(folder, Plan(seed=2, kills=1, receivers=2, life_seconds=(0, 0.5)), place, tls)


def test_writing_down_before_sending_is_found(tmp_path: Path, tls: TlsFiles) -> None:
    fault = "written_before_sent"
    report = alone(tmp_path, tls, fault).run_with_suicides(command_of(fault, "die"), command_of(fault, "live"))
    assert report.verdict.found["lost"]
    assert report.verdict.found["unasked"]


def test_not_writing_down_is_found(tmp_path: Path, tls: TlsFiles) -> None:
    assert alone(tmp_path, tls, "never_written").run_until_found("again").found["again"]


def test_the_newest_first_is_found(tmp_path: Path, tls: TlsFiles) -> None:
    assert alone(tmp_path, tls, "newest_first").run_until_found("overtaken").found["overtaken"]


def test_nodes_that_take_receivers_from_each_other_are_found(tmp_path: Path, tls: TlsFiles) -> None:
    with cluster(tmp_path) as nodes:
        place = TwoNodes(nodes, *flags_for(tls), command=command_of("claims_ignored", "live"))
        verdict = PushCampaign(tmp_path, Plan(seed=3, kills=0), place, tls).run_until_found("together")
    assert verdict.found["together"]
