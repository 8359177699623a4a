"""The campaign of the commands fault test: collectors and operators use servers that are killed repeatedly.

Half of the collectors share a site, the others have one each. Some are processes, which are paused past their leases.
At the end all collectors behave well until no command is active; then the campaign reads the server's final state and
verifies the audit trail.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restante.identity.people import sessions
from tests.faults.campaigns import join_threads
from tests.faults.client import Client, SignedIn
from tests.faults.commands.checker import Verdict, check
from tests.faults.commands.collector import COMMANDS, LEASE_SECONDS, Collector
from tests.faults.commands.collector_process import CollectorPauser, CollectorProcess
from tests.faults.commands.operators import NEEDING_APPROVAL, CommandApprover, CommandCreator, RecentCommands
from tests.faults.commands.records import AuditRow, FinalCommand, Record
from tests.faults.commands.site import ADMIN, CollectorHandle, add_collector, add_miner, add_site
from tests.faults.deployments import Deployment, SingleServer
from tests.faults.kill_campaign import RECOVERY_TIMEOUT_SECONDS, KillCampaign, KillReport, drain, wait_for_response
from tests.faults.kill_schedule import KillPlan
from tests.faults.nodes.balanced_client import client_for
from tests.faults.server_process import ServerProcess

DRAIN_SECONDS = 20.0
SESSION_SECONDS = 3600
ACTIVE = ("pending_approval", "pending", "dispatched", "running")
# A miner gets one command at a time; with these, some commands wait for their miner and most do not.
MINERS_PER_SITE = 24
# How many commands are not acknowledged before a run with a planted bug ends.
UNACKNOWLEDGED_MIN = 10
# Short leases and back-offs, so that everything happens within the campaign. Rate limits are not tested here.
FLAGS = (
    *("--command-lease-duration-sec", str(LEASE_SECONDS), "--default-retry-backoff-sec", "1"),
    *("--max-command-retries", "2", "--commands-needing-approval", NEEDING_APPROVAL),
    *("--command-rate-limits", "default=1000000/1,MINER_RESTART=1000000/1", "--log-level", "warning"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(KillPlan):
    # Collectors that share one site, and collectors with their own site.
    sharing: int = 4
    alone: int = 4
    # How many collectors of each kind are processes.
    processes: int = 1


@dataclass(slots=True, kw_only=True)
class Report(KillReport[Verdict]):
    pauses: int


class CommandsCampaign(KillCampaign[Plan, Report]):
    def __init__(self, folder: Path, plan: Plan, deployment: Deployment | None = None) -> None:
        super().__init__(plan, deployment or SingleServer(folder, *FLAGS))
        self._folder = folder
        # Many threads append to this list, which needs no lock.
        self._records: list[Record | str] = []
        self._collectors: list[Collector] = []
        self._processes: list[CollectorProcess] = []
        self._miners: dict[int, list[int]] = {}
        self._watcher = ""

    @contextmanager
    def _under_load(self) -> Iterator[None]:
        try:
            self.deployment.start()
            self._add_sites()
            self._load = Load(self._collectors, self._processes, *self._operators(), self._stop, self.plan.seed)
            self._load.start()
            yield
        finally:
            self._stop.set()
            for collector in self._collectors:
                collector.finish.set()
            for process in self._processes:
                process.end()
            self.deployment.end()

    def _add_sites(self) -> None:
        operator = self._client(self.deployment.prepared.key)
        shared = self._add_site(operator, "shared")
        for number in range(self.plan.sharing):
            self._add_collector(add_collector(operator, shared, f"collector {number}"), number < self.plan.processes)
        for number in range(self.plan.alone):
            own = self._add_site(operator, f"site {number}")
            self._add_collector(add_collector(operator, own, "alone"), number < self.plan.processes)
        self._watcher = add_collector(operator, add_site(operator, "quiet"), "watcher").token
        operator.close()

    def _add_site(self, operator: Client, name: str) -> int:
        site_id = add_site(operator, name)
        self._miners[site_id] = [add_miner(operator, site_id) for _ in range(MINERS_PER_SITE)]
        return site_id

    def _add_collector(self, handle: CollectorHandle, is_process: bool) -> None:
        ports, seed = self.deployment.ports, self.plan.seed * 1000 + handle.id
        if is_process:
            self._processes.append(CollectorProcess(self._folder, ports, handle, seed))
        else:
            self._collectors.append(Collector(ports, handle.id, handle.token, seed, self._records.append))

    def _operators(self) -> tuple[CommandCreator, CommandApprover]:
        """A program that creates commands, and a signed-in person who approves them."""
        with self.deployment.opened() as database:
            session = database.write_now(sessions.start, self.deployment.prepared.user_id, SESSION_SECONDS)
        recent: RecentCommands = RecentCommands()
        creator = self._client(self.deployment.prepared.key)
        approver = self._client(SignedIn(session), seed=1)
        return (
            CommandCreator(creator, self._miners, recent, self._records.append, self._stop),
            CommandApprover(approver, recent, self._records.append, self._stop),
        )

    def _client(self, bearer: str | SignedIn, seed: int = 0) -> Client:
        return client_for(self.deployment.ports, bearer, seed)

    def _wait_until_served(self, server: ServerProcess) -> None:
        wait_for_response(server, self._watcher, lambda client: client.request("GET", f"{COMMANDS}/poll"))

    def _wait_for_effects_of_bug(self) -> None:
        """Wait until collectors have left so many commands to be dispatched again that some get the same holder."""
        deadline = time.monotonic() + RECOVERY_TIMEOUT_SECONDS
        while sum(each.unacknowledged_count for each in self._collectors) < UNACKNOWLEDGED_MIN:
            assert time.monotonic() < deadline, "the collectors acknowledge too many commands"
            time.sleep(0.05)

    def _report(self, recovery_seconds: list[float]) -> Report:
        load, operator = self._load, self._client(self.deployment.prepared.key)
        load.calm_down()
        drained_seconds = drain(lambda: has_active_commands(operator), DRAIN_SECONDS)
        self._records += load.finish()
        final = final_commands(operator)
        operator.close()
        verified = self.deployment.run("audit", "verify")
        audit_error = None if verified.code == 0 else verified.output + verified.error
        records = [each for each in self._records if not isinstance(each, str)]
        return Report(
            verdict=check(records, final, audit_error),
            unexpected=[each for each in self._records if isinstance(each, str)],
            kills=self.plan.kills,
            drained_seconds=drained_seconds,
            recovery_seconds=recovery_seconds,
            pauses=load.pauses,
        )


class Load:
    """The collectors and operators of a campaign."""

    def __init__(
        self,
        collectors: list[Collector],
        processes: list[CollectorProcess],
        creator: CommandCreator,
        approver: CommandApprover,
        stop: threading.Event,
        seed: int,
    ) -> None:
        self._collectors = collectors
        self._processes = processes
        self._approver = approver
        self._stop = stop
        self._pauser = CollectorPauser(processes, stop, seed)
        self._disturbing: list[threading.Thread] = [creator, approver, *([self._pauser] if processes else [])]
        self._threads = [threading.Thread(target=each.run, daemon=True) for each in collectors]

    @property
    def pauses(self) -> int:
        return self._pauser.pauses

    def start(self) -> None:
        for thread in (*self._threads, *self._disturbing):
            thread.start()

    def calm_down(self) -> None:
        """Create no more commands, pause no more collectors, and let every collector behave well."""
        self._stop.set()
        join_threads(self._disturbing)
        for collector in self._collectors:
            collector.calm.set()
        for process in self._processes:
            process.calm_down()
        self._approver.deny_rest()

    def finish(self) -> list[Record | str]:
        """Stop the collectors; returns the records of the processes. The threads have recorded theirs already."""
        for collector in self._collectors:
            collector.finish.set()
        join_threads(self._threads)
        return [each for process in self._processes for each in process.finish()]


def has_active_commands(operator: Client) -> bool:
    return any(operator.request("GET", f"{ADMIN}/commands?status={state}&limit=1").body["items"] for state in ACTIVE)


def final_commands(operator: Client) -> list[FinalCommand]:
    """All commands, with their audit rows in order."""
    rows: dict[str, list[AuditRow]] = defaultdict(list)
    for row in _all_items(operator, "audit"):
        if row["command_id"] is not None:
            rows[row["command_id"]].append(_row(row))
    return [
        FinalCommand(
            each["command_id"],
            each["status"],
            each["attempt"],
            each["dedupe_key"],
            tuple(sorted(rows[each["command_id"]])),
        )
        for each in _all_items(operator, "commands")
    ]


def _row(row: dict[str, Any]) -> AuditRow:
    attempt, error = row["detail"].get("attempt"), row["detail"].get("error")
    return AuditRow(row["n"], row["actor"], row["event"], row["from_state"], row["to_state"], attempt, error)


def _all_items(operator: Client, resource: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = operator.request("GET", f"{ADMIN}/{resource}?limit=500&after={after}").body
        items += page["items"]
        after = page["next"]
    return items
