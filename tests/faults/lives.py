"""The lives of a server under load: killed from outside at seeded random moments, or ending itself at its worst one."""

import random
import time
from collections.abc import Callable
from typing import Protocol

from tests.faults.server_process import ServerProcess


class Rhythm(Protocol):
    """How often the server dies, and how long it lives before."""

    @property
    def kills(self) -> int: ...

    @property
    def life_seconds(self) -> tuple[float, float]: ...

    @property
    def early_share(self) -> float:
        """How many of the kills hit a server that is only just starting."""


def kill_again_and_again(
    servers: list[ServerProcess],
    rhythm: Rhythm,
    chance: random.Random,
    first_good_poll: Callable[[ServerProcess], None],
) -> list[float]:
    """Kill them in turn, as often as planned; how long it took each time until the killed one served again. All are
    ready after that."""
    back_seconds = []
    for number in range(rhythm.kills):
        server = servers[number % len(servers)]
        time.sleep(chance.uniform(*rhythm.life_seconds))
        server.kill()
        killed_at = time.monotonic()
        server.start()
        if chance.random() >= rhythm.early_share:
            first_good_poll(server)
            back_seconds.append(time.monotonic() - killed_at)
    for server in servers:
        server.wait_until_ready()
    return back_seconds


def let_end_itself(server: ServerProcess, rhythm: Rhythm, dying: tuple[str, ...], living: tuple[str, ...]) -> None:
    """A sabotaged server, which ends itself as often as planned; then one that has the fault and lives a while."""
    for _ in range(rhythm.kills):
        _restart(server, dying)
        assert server.wait_for_exit() < 0, "the sabotaged server was to kill itself"
    if rhythm.kills or server.command != living:
        _restart(server, living)
    server.wait_until_ready()
    time.sleep(rhythm.life_seconds[1])


def _restart(server: ServerProcess, command: tuple[str, ...]) -> None:
    server.end()
    server.command = command
    server.start()
