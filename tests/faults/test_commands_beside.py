"""Commands of the command line beside a running server that hands out commands, and who of many is woken by one."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.client import Client, Reply
from tests.faults.commands_collector import COMMANDS
from tests.faults.commands_site import ADMIN, CollectorHandle, add_collector, add_miner, add_site
from tests.faults.server_process import ServerProcess, prepare, run_command, running

pytestmark = pytest.mark.slow

# Far less than the wait of a poll; what is above a moment is for a busy machine.
HEARD_WITHIN_SECONDS = 2.0
WAIT_SECONDS = 30
WAITERS = 10
HOT_REQUESTS = "restante_fast_lane_requests_total"
WRITES = "restante_writes_total"
FLAGS = ("--commands-needing-approval", "POWER_MODE", "--command-rate-limits", "MINER_RESTART=1000000/1")


@dataclass
class EdgeSite:
    """A site with a miner, on a server that other tests use too."""

    server: ServerProcess
    operator: Client
    threads: ThreadPoolExecutor
    opened: ExitStack
    id: int
    miner_id: int
    hired: list[CollectorHandle] = field(default_factory=list)
    polls: list["Future[Reply]"] = field(default_factory=list)

    def hire(self) -> CollectorHandle:
        self.hired.append(add_collector(self.operator, self.id, f"collector {len(self.hired)}"))
        return self.hired[-1]

    def client_of(self, collector: CollectorHandle) -> Client:
        """A client whose first poll is behind it, so that the fast lane knows its token."""
        client = self.opened.enter_context(closing(Client(self.server.port, collector.token)))
        assert polled(client.ask("GET", f"{COMMANDS}/poll")) == []
        return client

    def park(self, collector: CollectorHandle) -> "Future[Reply]":
        """A long poll for one command, which is parked at the server when this returns."""
        client = self.client_of(collector)
        before = self.server.metric(HOT_REQUESTS)
        answer = self.threads.submit(client.ask, "GET", f"{COMMANDS}/poll?limit=1&wait={WAIT_SECONDS}")
        self.server.wait_for_metric(HOT_REQUESTS, before + 1)
        self.polls.append(answer)
        return answer

    def make(self, command_type: str = "MINER_RESTART", **params: str) -> str:
        body = {"site_id": self.id, "miner_id": self.miner_id, "command_type": command_type, "params": params}
        reply = self.operator.ask("POST", f"{ADMIN}/commands", body)
        assert reply.status == 201, reply
        return str(reply.body["command_id"])

    def run(self, *args: str) -> Any:
        finished = run_command(self.server.data, *args, "--json")
        assert finished.code == 0, finished
        return json.loads(finished.output)

    def send(self) -> str:
        """The same as `make`, by the command line."""
        return str(self.run("commands", "send", str(self.id), "restart", "--miner", str(self.miner_id))["command_id"])

    def let_go(self) -> None:
        """Give everybody who still waits a command, so that no thread holds up the end of the test."""
        for _ in [poll for poll in self.polls if not poll.done()]:
            self.make()


def polled(reply: Reply) -> list[str]:
    assert reply.status == 200, reply
    return [each["command_id"] for each in reply.body["commands"]]


def soon(poll: "Future[Reply]") -> list[str]:
    return polled(poll.result(HEARD_WITHIN_SECONDS))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str]]:
    """One server for all of these tests: each has a site of its own."""
    prepared = prepare(tmp_path_factory.mktemp("beside") / "data")
    with running(prepared.data, *FLAGS) as started:
        yield started, prepared.key


@pytest.fixture
def site(server: tuple[ServerProcess, str], tmp_path: Path) -> Iterator[EdgeSite]:
    started, key = server
    with ThreadPoolExecutor(WAITERS) as threads, ExitStack() as opened:
        operator = opened.enter_context(closing(Client(started.port, key)))
        site_id = add_site(operator, tmp_path.name)
        edge = EdgeSite(started, operator, threads, opened, site_id, add_miner(operator, site_id))
        yield edge
        edge.let_go()


def test_a_sent_command_wakes_a_parked_poll(site: EdgeSite) -> None:
    poll = site.park(site.hire())
    sent = site.send()
    assert soon(poll) == [sent]


def test_an_approved_command_wakes_a_parked_poll(site: EdgeSite) -> None:
    poll = site.park(site.hire())
    made = site.make("POWER_MODE", mode="LOW")
    assert not poll.done()
    site.run("commands", "approve", made)
    assert soon(poll) == [made]


def test_a_cancelled_command_is_not_handed_out(site: EdgeSite) -> None:
    client = site.client_of(site.hire())
    made, other = site.make(), site.make()
    site.run("commands", "cancel", made)
    assert polled(client.ask("GET", f"{COMMANDS}/poll")) == [other]


def test_the_holder_of_a_cancelled_command_is_told_at_its_ack(site: EdgeSite) -> None:
    client = site.client_of(site.hire())
    made = site.make()
    assert polled(client.ask("GET", f"{COMMANDS}/poll")) == [made]
    site.run("commands", "cancel", made)
    refused = client.ask("POST", f"{COMMANDS}/{made}/ack", {"status": "succeeded"})
    assert (refused.status, refused.body["command_status"]) == (409, "cancelled")


def test_a_revoked_collectors_remembered_token_is_refused(site: EdgeSite) -> None:
    collector, other = site.hire(), site.hire()
    client, others = site.client_of(collector), site.client_of(other)
    site.run("collector", "revoke", str(collector.id))
    revoked_at = time.monotonic()
    while client.ask("GET", f"{COMMANDS}/poll").status != 401:
        assert time.monotonic() < revoked_at + HEARD_WITHIN_SECONDS, "the token is still good"
    assert client.ask("POST", f"{COMMANDS}/cmd_1/ack", {"status": "succeeded"}).status == 401
    assert polled(others.ask("GET", f"{COMMANDS}/poll")) == []


def test_a_collector_that_is_revoked_while_it_waits_is_handed_nothing(site: EdgeSite) -> None:
    revoked, other = site.hire(), site.hire()
    poll = site.park(revoked)
    site.run("collector", "revoke", str(revoked.id))
    made = site.make()
    refused = poll.result(HEARD_WITHIN_SECONDS)
    assert (refused.status, refused.body["error"]) == (401, "UNAUTHORIZED")
    client = site.opened.enter_context(closing(Client(site.server.port, other.token)))
    assert polled(client.ask("GET", f"{COMMANDS}/poll")) == [made]


@pytest.mark.parametrize("by_command_line", [False, True], ids=["by the server", "by the command line"])
def test_one_command_is_for_one_of_those_who_wait(site: EdgeSite, by_command_line: bool) -> None:
    make = site.send if by_command_line else site.make
    polls = [site.park(site.hire()) for _ in range(2)]
    for waiting in (2, 1):
        made = make()
        answered, still = wait(polls, HEARD_WITHIN_SECONDS, FIRST_COMPLETED)
        assert len(answered) == 1
        assert len(still) == waiting - 1
        polls = list(still)
        assert polled(answered.pop().result()) == [made]
        assert not any(poll.done() for poll in polls)


def test_who_waits_is_not_woken_in_vain(site: EdgeSite) -> None:
    """One write makes the command and one claims it; ten who wait do not all look for it."""
    polls = [site.park(site.hire()) for _ in range(WAITERS)]
    before = site.server.metric(WRITES)
    made = site.make()
    answered, still = wait(polls, HEARD_WITHIN_SECONDS, FIRST_COMPLETED)
    assert [polled(each.result()) for each in answered] == [[made]]
    assert len(still) == WAITERS - 1
    # Beside the two, some of the server's own may have come in between.
    assert site.server.metric(WRITES) - before < WAITERS // 2


def test_several_commands_are_for_as_many_of_those_who_wait(site: EdgeSite) -> None:
    polls = [site.park(site.hire()) for _ in range(3)]
    body = {"site_id": site.id, "miner_id": site.miner_id, "command_type": "MINER_RESTART"}
    made = site.operator.ask("POST", f"{ADMIN}/commands", {"commands": [body] * 3})
    assert made.status == 201
    handed = [soon(poll) for poll in polls]
    assert sorted(handed) == sorted([each["command_id"]] for each in made.body["commands"])
