"""CLI commands beside a running server that dispatches commands, and how many parked polls one command wakes."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.client import Client, Response
from tests.faults.commands.collector import COMMANDS
from tests.faults.commands.site import ADMIN, CollectorHandle, add_collector, add_miner, add_site
from tests.faults.server_process import ServerProcess, prepare_data, run_command, running_server

pytestmark = pytest.mark.slow

# Far less than the wait of a poll; most of it is allowance for a busy machine.
NOTICED_WITHIN_SECONDS = 2.0
WAIT_SECONDS = 30
WAITERS = 10
FAST_LANE_REQUESTS = "restante_fast_lane_requests_total"
WRITES = "restante_writes_total"
FLAGS = ("--command-rate-limits", "MINER_RESTART=1000000/1")


@dataclass
class EdgeSite:
    """A site on a server that the tests of this module share. Each command has a miner of its own."""

    server: ServerProcess
    operator: Client
    threads: ThreadPoolExecutor
    opened: ExitStack
    id: int
    collectors: list[CollectorHandle] = field(default_factory=list)
    polls: list["Future[Response]"] = field(default_factory=list)

    def add_collector(self) -> CollectorHandle:
        self.collectors.append(add_collector(self.operator, self.id, f"collector {len(self.collectors)}"))
        return self.collectors[-1]

    def client_of(self, collector: CollectorHandle) -> Client:
        """A client that has polled once, so that the fast lane has cached its token."""
        client = self.opened.enter_context(closing(Client(self.server.port, collector.token)))
        assert command_ids(client.request("GET", f"{COMMANDS}/poll")) == []
        return client

    def park(self, collector: CollectorHandle) -> "Future[Response]":
        """Start a long poll for one command; it is parked at the server when this returns."""
        client = self.client_of(collector)
        before = self.server.metric(FAST_LANE_REQUESTS)
        poll = self.threads.submit(client.request, "GET", f"{COMMANDS}/poll?limit=1&wait={WAIT_SECONDS}")
        self.server.wait_for_metric(FAST_LANE_REQUESTS, before + 1)
        self.polls.append(poll)
        return poll

    def add_miner(self) -> int:
        return add_miner(self.operator, self.id)

    def create(self) -> str:
        body = {"site_id": self.id, "miner_id": self.add_miner(), "command_type": "MINER_RESTART"}
        response = self.operator.request("POST", f"{ADMIN}/commands", body)
        assert response.status == 201, response
        return str(response.body["command_id"])

    def run_cli(self, *args: str) -> Any:
        result = run_command(self.server.data, *args, "--json")
        assert result.code == 0, result
        return json.loads(result.output)

    def create_by_cli(self) -> str:
        return str(
            self.run_cli("command", "create", str(self.id), "restart", "--miner", str(self.add_miner()))["command_id"]
        )

    def answer_parked_polls(self) -> None:
        """Create a command for each parked poll, so that no thread delays the end of the test."""
        for _ in [poll for poll in self.polls if not poll.done()]:
            self.create()


def command_ids(response: Response) -> list[str]:
    assert response.status == 200, response
    return [each["command_id"] for each in response.body["commands"]]


def result_of(poll: "Future[Response]") -> list[str]:
    return command_ids(poll.result(NOTICED_WITHIN_SECONDS))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    """One server for all of these tests; each has its own site."""
    prepared = prepare_data(tmp_path_factory.mktemp("beside") / "data")
    with running_server(prepared.data, *FLAGS) as started:
        yield started, prepared.key


@pytest.fixture
def site(server: tuple[ServerProcess, str], tmp_path: Path) -> Iterator[EdgeSite]:
    started, key = server
    with ThreadPoolExecutor(WAITERS) as threads, ExitStack() as opened:
        operator = opened.enter_context(closing(Client(started.port, key)))
        site_id = add_site(operator, tmp_path.name)
        edge = EdgeSite(started, operator, threads, opened, site_id)
        yield edge
        edge.answer_parked_polls()


def test_command_sent_by_cli_wakes_a_parked_poll(site: EdgeSite) -> None:
    poll = site.park(site.add_collector())
    sent = site.create_by_cli()
    assert result_of(poll) == [sent]


def test_cancelled_command_is_not_dispatched(site: EdgeSite) -> None:
    client = site.client_of(site.add_collector())
    created, other = site.create(), site.create()
    site.run_cli("command", "cancel", created)
    assert command_ids(client.request("GET", f"{COMMANDS}/poll")) == [other]


def test_ack_of_a_cancelled_command_is_refused(site: EdgeSite) -> None:
    client = site.client_of(site.add_collector())
    created = site.create()
    assert command_ids(client.request("GET", f"{COMMANDS}/poll")) == [created]
    site.run_cli("command", "cancel", created)
    refused = client.request("POST", f"{COMMANDS}/{created}/ack", {"status": "succeeded"})
    assert (refused.status, refused.body["command_status"]) == (409, "cancelled")


def test_cached_token_of_a_revoked_collector_is_refused(site: EdgeSite) -> None:
    collector, other = site.add_collector(), site.add_collector()
    client, others = site.client_of(collector), site.client_of(other)
    site.run_cli("collector", "revoke", str(collector.id), "--yes")
    revoked_at = time.monotonic()
    while client.request("GET", f"{COMMANDS}/poll").status != 401:
        assert time.monotonic() < revoked_at + NOTICED_WITHIN_SECONDS, "the token is still accepted"
    assert client.request("POST", f"{COMMANDS}/cmd_1/ack", {"status": "succeeded"}).status == 401
    assert command_ids(others.request("GET", f"{COMMANDS}/poll")) == []


def test_parked_poll_of_a_revoked_collector_gets_no_command(site: EdgeSite) -> None:
    revoked, other = site.add_collector(), site.add_collector()
    poll = site.park(revoked)
    site.run_cli("collector", "revoke", str(revoked.id), "--yes")
    created = site.create()
    refused = poll.result(NOTICED_WITHIN_SECONDS)
    assert (refused.status, refused.body["error"]) == (401, "UNAUTHORIZED")
    client = site.opened.enter_context(closing(Client(site.server.port, other.token)))
    assert command_ids(client.request("GET", f"{COMMANDS}/poll")) == [created]


@pytest.mark.parametrize("by_cli", [False, True], ids=["by the server", "by the CLI"])
def test_one_command_wakes_one_parked_poll(site: EdgeSite, by_cli: bool) -> None:
    create = site.create_by_cli if by_cli else site.create
    polls = [site.park(site.add_collector()) for _ in range(2)]
    for waiting in (2, 1):
        created = create()
        done, waiting_polls = wait(polls, NOTICED_WITHIN_SECONDS, FIRST_COMPLETED)
        assert len(done) == 1
        assert len(waiting_polls) == waiting - 1
        polls = list(waiting_polls)
        assert command_ids(done.pop().result()) == [created]
        assert not any(poll.done() for poll in polls)


def test_one_command_does_not_wake_all_parked_polls(site: EdgeSite) -> None:
    """One write creates the command and one claims it; the ten parked polls do not all try to claim it."""
    polls = [site.park(site.add_collector()) for _ in range(WAITERS)]
    before = site.server.metric(WRITES)
    created = site.create()
    done, waiting_polls = wait(polls, NOTICED_WITHIN_SECONDS, FIRST_COMPLETED)
    assert [command_ids(each.result()) for each in done] == [[created]]
    assert len(waiting_polls) == WAITERS - 1
    # Besides these two, the server may have done some writes of its own.
    assert site.server.metric(WRITES) - before < WAITERS // 2


def test_several_commands_wake_as_many_parked_polls(site: EdgeSite) -> None:
    polls = [site.park(site.add_collector()) for _ in range(3)]
    body = {"site_id": site.id, "command_type": "MINER_RESTART"}
    commands = [{**body, "miner_id": site.add_miner()} for _ in polls]
    created = site.operator.request("POST", f"{ADMIN}/commands", {"commands": commands})
    assert created.status == 201
    dispatched = [result_of(poll) for poll in polls]
    assert sorted(dispatched) == sorted([each["command_id"]] for each in created.body["commands"])
