"""Kill a server under load: from outside at seeded random times, or by its own crash point."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.server_process import ServerProcess

# Much longer than it takes, because the machine may be busy with other tests.
SELF_KILL_SECONDS = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPlan:
    """How many kills, how long the server runs before each, and which share of them hit a server while it starts."""

    seed: int
    kills: int
    uptime_seconds: tuple[float, float] = (0.1, 0.6)
    early_kill_share: float = 0.15


def kill_repeatedly(
    servers: list[ServerProcess],
    plan: KillPlan,
    rng: random.Random,
    wait_for_first_poll: Callable[[ServerProcess], None],
) -> list[float]:
    """Kill the servers in turn, as often as planned; returns how long each took to serve again. All servers are ready
    at the end."""
    recovery_seconds = []
    for number in range(plan.kills):
        server = servers[number % len(servers)]
        time.sleep(rng.uniform(*plan.uptime_seconds))
        server.kill()
        killed_at = time.monotonic()
        server.start()
        if rng.random() >= plan.early_kill_share:
            wait_for_first_poll(server)
            recovery_seconds.append(time.monotonic() - killed_at)
    for server in servers:
        server.wait_until_ready()
    return recovery_seconds


def run_self_killing(
    server: ServerProcess, plan: KillPlan, crashing: tuple[str, ...], surviving: tuple[str, ...]
) -> None:
    """Run a server with a planted bug that kills itself as often as planned; then run the bug without crashes."""
    for _ in range(plan.kills):
        _restart(server, crashing)
        assert server.wait_for_exit(SELF_KILL_SECONDS) < 0, "the server with the planted bug did not kill itself"
    if plan.kills or server.command != surviving:
        _restart(server, surviving)
    server.wait_until_ready()
    time.sleep(plan.uptime_seconds[1])


def _restart(server: ServerProcess, command: tuple[str, ...]) -> None:
    server.end()
    server.command = command
    server.start()
