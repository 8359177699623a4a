"""Idle polls with a new connection each, compared with nginx: in requests a second, and in the server's CPU time.

The CPU time of a request hardly depends on what else runs on the machine.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.commands import commands
from bench.data import edge_data, event_data
from bench.events import events
from bench.polls.idle_poll import warm_server
from bench.tools.load import Load, load, nginx_process
from bench.tools.processes import SERVER_CORE, free_port, pinned, scheduled_seconds

ROUNDS = 5
SECONDS = 4
COMMANDS_BODY = (
    '{"commands":[],"miner_command_count":0,"remote_command_count":0,"rate_limited_count":0,'
    '"server_time":"2026-11-16T03:59:52Z"}'
)


class Target(NamedTuple):
    """A server under load, and the load."""

    pid: int
    send: Callable[[int], Load]


class Figure(NamedTuple):
    per_second: float
    microseconds: float


def measured(target: Target, seconds: int = SECONDS) -> Figure:
    before = scheduled_seconds(target.pid)
    sent = target.send(seconds)
    return Figure(sent.per_second, (scheduled_seconds(target.pid) - before) / sent.requests * 1e6)


def against_nginx() -> dict[str, float]:
    figures: dict[str, float] = {}
    for label, servers in (("device", _devices), ("command", _commands), ("event", _events)):
        with tempfile.TemporaryDirectory() as name, servers(Path(name)) as (ours, theirs):
            figures |= {f"{label} poll: {key}": value for key, value in compared(ours, theirs).items()}
    return figures


def compared(ours: Target, theirs: Target) -> dict[str, float]:
    """Both under load in turn."""
    measured(ours, 1)
    rounds = [(measured(theirs), measured(ours)) for _ in range(ROUNDS)]
    return {
        "nginx requests/s (median)": statistics.median(their.per_second for their, _ in rounds),
        "restante requests/s (median)": statistics.median(our.per_second for _, our in rounds),
        "ratio of rates (median of rounds)": statistics.median(o.per_second / t.per_second for t, o in rounds),
        "nginx µs of CPU (median)": statistics.median(their.microseconds for their, _ in rounds),
        "restante µs of CPU (median)": statistics.median(our.microseconds for _, our in rounds),
        "nginx CPU / restante CPU (median of rounds)": statistics.median(
            t.microseconds / o.microseconds for t, o in rounds
        ),
        "  lowest round": min(t.microseconds / o.microseconds for t, o in rounds),
        "  highest round": max(t.microseconds / o.microseconds for t, o in rounds),
    }


def sender(port: int, tokens: Path, path: str, script: str = "idle_poll.lua") -> Callable[[int], Load]:
    return lambda seconds: load(port, tokens, seconds, path, script, new_connections=True)


@contextmanager
def _devices(folder: Path, tokens: int = 100_000) -> Iterator[tuple[Target, Target]]:
    path = "/apiv1/devices/self/updates"
    with nginx_process(folder) as (nginx, reference), warm_server(folder, tokens, tokens) as (pid, port, token_file):
        yield Target(pid, sender(port, token_file, path)), Target(nginx, sender(reference, token_file, path))


@contextmanager
def _commands(folder: Path) -> Iterator[tuple[Target, Target]]:
    edge = edge_data.prepare(folder / "data", 1000, 0)
    command = commands.server_command(edge.folder, port := free_port())
    with _beside_nginx(folder, edge.tokens, command, port, COMMANDS_BODY, "/api/edge/v1/commands/poll") as pair:
        yield pair


@contextmanager
def _events(folder: Path) -> Iterator[tuple[Target, Target]]:
    data = event_data.prepare(folder / "data", 1000, 0)
    command = events.server_command(data.folder, port := free_port())
    body = '{"sets":{},"moreAvailable":false}'
    with _beside_nginx(folder, data.tokens, command, port, body, events.PATH, "event_poll.lua") as pair:
        yield pair


@contextmanager
def _beside_nginx(
    folder: Path, tokens: list[str], command: list[str], port: int, body: str, path: str, script: str = "idle_poll.lua"
) -> Iterator[tuple[Target, Target]]:
    token_file = folder / "tokens"
    token_file.write_text("\n".join(tokens) + "\n")
    with (
        nginx_process(folder, body) as (nginx, reference),
        pinned(SERVER_CORE, command, port, log=folder / "log") as pid,
    ):
        # Learn every token first.
        load(port, token_file, 2, path, script)
        yield (
            Target(pid, sender(port, token_file, path, script)),
            Target(nginx, sender(reference, token_file, path, script)),
        )
