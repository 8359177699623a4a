"""A campaign of the command fault test: collectors and operators at servers that are killed again and again.

Half of the collectors share a site, the others have one each; some are processes, which are stopped past their leases.
At the end everybody behaves, until no command is active; then the server's own view is read and the trail verified.
"""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restante.identity import api_keys
from restante.identity.callers import Role
from tests.faults.client import Client, Unanswered
from tests.faults.commands_checker import Verdict, check
from tests.faults.commands_collector import COMMANDS, LEASE_SECONDS, Collector
from tests.faults.commands_operators import NEEDING_APPROVAL, Decider, Maker, Recent
from tests.faults.commands_records import Kept, Record, Row
from tests.faults.commands_site import ADMIN, CollectorHandle, add_collector, add_miner, add_site
from tests.faults.commands_stopping import CollectorProcess, Stopper
from tests.faults.lives import kill_again_and_again, let_end_itself
from tests.faults.nodes_client import client_of
from tests.faults.places import Alone, Place
from tests.faults.server_process import PATIENCE_SECONDS, ServerProcess

DRAIN_SECONDS = 20.0
# Far more than a start takes: the machine may be busy with other tests.
BACK_PATIENCE_SECONDS = 90.0
ACTIVE = ("pending_approval", "pending", "dispatched", "running")
# Short leases and back-offs, so that everything happens within the campaign; rates are not what is tested here.
FLAGS = (
    *("--command-lease-duration-sec", str(LEASE_SECONDS), "--default-retry-backoff-sec", "1"),
    *("--max-command-retries", "2", "--commands-needing-approval", NEEDING_APPROVAL),
    *("--command-rate-limits", "default=1000000/1,MINER_RESTART=1000000/1", "--log-level", "warning"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    kills: int
    sharing: int = 4
    alone: int = 4
    # How many of each of the two kinds are processes.
    processes: int = 1
    life_seconds: tuple[float, float] = (0.1, 0.6)
    early_share: float = 0.15


@dataclass(slots=True)
class Report:
    verdict: Verdict
    surprises: list[str]
    kills: int
    stops: int
    drained_seconds: float
    back_seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        back = sorted(self.back_seconds)
        middle = f"{back[len(back) // 2]:.2f} s, worst {back[-1]:.2f} s" if back else "not measured"
        return (
            f"{self.kills} kills, {self.stops} stops of collectors; {self.verdict}; "
            f"first good poll after a kill: median {middle}; drained in {self.drained_seconds:.2f} s"
        )


class CommandsCampaign:
    def __init__(self, folder: Path, plan: Plan, place: Place | None = None) -> None:
        self.plan = plan
        self.place = place or Alone(folder, *FLAGS)
        self._folder = folder
        self._random = random.Random(plan.seed)
        self._stop = threading.Event()
        # Appended to by many threads, which needs no lock.
        self._noted: list[Record | str] = []
        self._collectors: list[Collector] = []
        self._processes: list[CollectorProcess] = []
        self._miners: dict[int, int] = {}
        self._watcher = ""
        self._drained_seconds = 0.0

    def run_with_kills(self) -> Report:
        """The honest server, killed from outside."""
        with self._under_load() as load:
            back_seconds = kill_again_and_again(self.place.nodes, self.plan, self._random, self._first_good_poll)
            return self._report(load, back_seconds)

    def run_with_suicides(self, dying: tuple[str, ...], living: tuple[str, ...]) -> Report:
        """A sabotaged server, which ends itself as often as planned."""
        if not self.plan.kills:
            # It lives from the start; one that dies may not even be able to start on an empty folder.
            self.place.nodes[0].command = living
        with self._under_load() as load:
            let_end_itself(self.place.nodes[0], self.plan, dying, living)
            return self._report(load, [])

    @contextmanager
    def _under_load(self) -> Iterator["Load"]:
        try:
            self.place.start()
            self._settle_sites()
            load = Load(self._collectors, self._processes, *self._operators(), self._stop, self.plan.seed)
            load.start()
            yield load
        finally:
            self._stop.set()
            for collector in self._collectors:
                collector.finish.set()
            for process in self._processes:
                process.end()
            self.place.end()

    def _settle_sites(self) -> None:
        operator = self._client(self.place.prepared.key)
        shared = self._add_site(operator, "shared")
        for number in range(self.plan.sharing):
            self._hire(add_collector(operator, shared, f"sharing {number}"), number < self.plan.processes)
        for number in range(self.plan.alone):
            own = self._add_site(operator, f"site {number}")
            self._hire(add_collector(operator, own, "alone"), number < self.plan.processes)
        self._watcher = add_collector(operator, add_site(operator, "quiet"), "watcher").token
        operator.close()

    def _add_site(self, operator: Client, name: str) -> int:
        site_id = add_site(operator, name)
        self._miners[site_id] = add_miner(operator, site_id)
        return site_id

    def _hire(self, handle: CollectorHandle, is_process: bool) -> None:
        ports, seed = self.place.ports, self.plan.seed * 1000 + handle.id
        if is_process:
            self._processes.append(CollectorProcess(self._folder, ports, handle, seed))
        else:
            self._collectors.append(Collector(ports, handle.id, handle.token, seed, self._noted.append))

    def _operators(self) -> tuple[Maker, Decider]:
        """Two of them: nobody approves their own commands."""
        with self.place.opened() as database:
            _, key = database.write_now(api_keys.create, "decider", Role.admin)
        recent: Recent = Recent()
        maker, decider = self._client(self.place.prepared.key), self._client(key, seed=1)
        return (
            Maker(maker, self._miners, recent, self._noted.append, self._stop),
            Decider(decider, recent, self._noted.append, self._stop),
        )

    def _client(self, bearer: str, seed: int = 0) -> Client:
        return client_of(self.place.ports, bearer, seed)

    def _first_good_poll(self, server: ServerProcess) -> None:
        client = Client(server.port, self._watcher)
        deadline = time.monotonic() + BACK_PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                if client.ask("GET", f"{COMMANDS}/poll").status == 200:
                    client.close()
                    return
            except Unanswered:
                continue
        raise AssertionError("no poll is answered")

    def _report(self, load: "Load", back_seconds: list[float]) -> Report:
        operator = self._client(self.place.prepared.key)
        load.calm_down()
        self._wait_until_drained(operator)
        self._noted += load.finish()
        kept = commands_kept(operator)
        operator.close()
        verified = self.place.run("audit", "verify")
        complaint = None if verified.code == 0 else verified.output + verified.complaint
        records = [each for each in self._noted if not isinstance(each, str)]
        surprises = [each for each in self._noted if isinstance(each, str)]
        verdict = check(records, kept, complaint)
        return Report(verdict, surprises, self.plan.kills, load.stops, self._drained_seconds, back_seconds)

    def _wait_until_drained(self, operator: Client) -> None:
        """Not for ever: what is then still active the checker will see."""
        started = time.monotonic()
        while any(operator.ask("GET", f"{ADMIN}/commands?status={state}&limit=1").body["items"] for state in ACTIVE):
            if time.monotonic() > started + DRAIN_SECONDS:
                break
            time.sleep(0.05)
        self._drained_seconds = time.monotonic() - started


class Load:
    """All who are at work, from their start to what they saw."""

    def __init__(
        self,
        collectors: list[Collector],
        processes: list[CollectorProcess],
        maker: Maker,
        decider: Decider,
        stop: threading.Event,
        seed: int,
    ) -> None:
        self._collectors = collectors
        self._processes = processes
        self._decider = decider
        self._stop = stop
        self._stopper = Stopper(processes, stop, seed)
        self._busy: list[threading.Thread] = [maker, decider, *([self._stopper] if processes else [])]
        self._threads = [threading.Thread(target=each.run, daemon=True) for each in collectors]

    @property
    def stops(self) -> int:
        return self._stopper.stops

    def start(self) -> None:
        for thread in (*self._threads, *self._busy):
            thread.start()

    def calm_down(self) -> None:
        """Nothing new is made, nobody is stopped, and every collector does what it should."""
        self._stop.set()
        _join(self._busy)
        for collector in self._collectors:
            collector.calm.set()
        for process in self._processes:
            process.calm_down()
        self._decider.deny_rest()

    def finish(self) -> list[Record | str]:
        """What the processes saw; the others have noted it already."""
        for collector in self._collectors:
            collector.finish.set()
        _join(self._threads)
        return [each for process in self._processes for each in process.finish()]


def _join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), f"{thread.name} does not end"


def commands_kept(operator: Client) -> list[Kept]:
    """Every command there is, with its rows of the trail from the first to the last."""
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in _all_items(operator, "audit"):
        if row["command_id"] is not None:
            rows[row["command_id"]].append(_row(row))
    return [
        Kept(
            each["command_id"],
            each["status"],
            each["attempt"],
            each["dedupe_key"],
            tuple(sorted(rows[each["command_id"]])),
        )
        for each in _all_items(operator, "commands")
    ]


def _row(row: dict[str, Any]) -> Row:
    attempt, error = row["detail"].get("attempt"), row["detail"].get("error")
    return Row(row["n"], row["actor"], row["event"], row["from_state"], row["to_state"], attempt, error)


def _all_items(operator: Client, what: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = operator.ask("GET", f"{ADMIN}/{what}?limit=500&after={after}").body
        items += page["items"]
        after = page["next"]
    return items
