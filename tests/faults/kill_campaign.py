"""What the fault campaigns share that kill servers repeatedly: both ways to run one, draining, and the report."""

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tests.faults.campaigns import median_and_worst
from tests.faults.client import Client, NoResponse, Response
from tests.faults.deployments import Deployment
from tests.faults.kill_schedule import KillPlan, kill_repeatedly, run_self_killing
from tests.faults.server_process import ServerProcess

# Much longer than a start takes, because the machine may be busy with other tests.
RECOVERY_TIMEOUT_SECONDS = 90.0

VerdictT = TypeVar("VerdictT")
PlanT = TypeVar("PlanT", bound=KillPlan)
ReportT = TypeVar("ReportT")


@dataclass(slots=True, kw_only=True)
class KillReport(Generic[VerdictT]):
    verdict: VerdictT
    unexpected: list[str]
    kills: int
    drained_seconds: float
    recovery_seconds: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.kills} kills; {self.verdict}; first poll after a kill: {median_and_worst(self.recovery_seconds)}; "
            f"drained in {self.drained_seconds:.2f} s"
        )


class KillCampaign(ABC, Generic[PlanT, ReportT]):
    """A subclass adds the load, its end and the check."""

    def __init__(self, plan: PlanT, deployment: Deployment) -> None:
        self.plan = plan
        self.deployment = deployment
        self._stop = threading.Event()

    def run_with_kills(self) -> ReportT:
        """Kill the unmodified servers from outside, in turn."""
        rng = random.Random(self.plan.seed)
        with self._under_load():
            recovery_seconds = kill_repeatedly(self.deployment.nodes, self.plan, rng, self._wait_until_served)
            return self._report(recovery_seconds)

    def run_with_self_kills(self, crashing: tuple[str, ...], surviving: tuple[str, ...]) -> ReportT:
        """Run a server with a planted bug, which kills itself as often as planned."""
        if not self.plan.kills:
            # Use the surviving command from the start: the crashing one may not even start on an empty folder.
            self.deployment.nodes[0].command = surviving
        with self._under_load():
            run_self_killing(self.deployment.nodes[0], self.plan, crashing, surviving)
            self._wait_for_effects_of_bug()
            return self._report([])

    def _wait_for_effects_of_bug(self) -> None:
        """Wait until the planted bug has had occasions to show. By default the uptime of the plan is enough."""

    @abstractmethod
    def _under_load(self) -> AbstractContextManager[None]:
        """Start the servers and the load; end both."""

    @abstractmethod
    def _wait_until_served(self, server: ServerProcess) -> None:
        """Wait until a restarted server serves again."""

    @abstractmethod
    def _report(self, recovery_seconds: list[float]) -> ReportT:
        """End the load, wait until nothing is left to deliver, and check all observations."""


def wait_for_response(server: ServerProcess, bearer: str, poll: Callable[[Client], Response]) -> None:
    """Poll with a new client until a poll gets a response."""
    client = Client(server.port, bearer)
    deadline = time.monotonic() + RECOVERY_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            if poll(client).status == 200:
                client.close()
                return
        except NoResponse:
            continue
    raise AssertionError("no poll got a response")


def drain(is_anything_left: Callable[[], object], timeout_seconds: float) -> float:
    """Wait for a limited time, and return how long: the checker reports what is left."""
    started = time.monotonic()
    while is_anything_left() and time.monotonic() < started + timeout_seconds:
        time.sleep(0.05)
    return time.monotonic() - started
