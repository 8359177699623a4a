"""The hot paths, each as a process to count and as work of a known number of requests for it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, cycle, islice
from pathlib import Path
from typing import NamedTuple

from bench.instructions import callgrind, program
from bench.instructions.callgrind import Count, CountedProcess
from bench.instructions.rounds import Rounds
from bench.trees import DEVICE_CODE, EDGE_CODE, IDLE_POLLS, SITES, NotInTree, PollPath, Tree

CONNECTIONS = 64
WINDOWS = 24
WARM_UP = 3
# Rounds and recipients of a window. Recipients: whole batches of a job, also in commits with batches of 200.
POLL_ROUNDS = 10
FIRST_POLL_ROUNDS = 4
PAIR_ROUNDS = 2
RECIPIENTS = 1000
_RUNS = WARM_UP + 1 + WINDOWS


class Subject(NamedTuple):
    """A process to count, and work of so many requests for it."""

    process: CountedProcess
    work: Callable[[], object]
    requests: int
    after_warm_up: Callable[[], object] = lambda: None

    def measure(self) -> Count:
        for _ in range(WARM_UP):
            self.work()
        self.after_warm_up()
        return self.process.count(self.work, self.requests, WINDOWS)


# Starts the process of a path in a tree, until the stack ends it.
HotPath = Callable[[Tree, ExitStack], Subject]


def _idle_polls(poll: PollPath) -> HotPath:
    def start(tree: Tree, opened: ExitStack) -> Subject:
        data, tokens = tree.prepare(poll.code)
        # The warm-up polls with each of them.
        known = tokens.read_text().split()[: CONNECTIONS * POLL_ROUNDS]
        return _polls(tree, opened, data, poll, cycle(known), POLL_ROUNDS)

    return start


def _first_polls(tree: Tree, opened: ExitStack) -> Subject:
    data, tokens = tree.prepare(DEVICE_CODE)
    return _polls(tree, opened, data, IDLE_POLLS["idle-poll"], iter(tokens.read_text().split()), FIRST_POLL_ROUNDS)


def _polls(
    tree: Tree, opened: ExitStack, data: Path, poll: PollPath, tokens: Iterator[str], rounds_a_window: int
) -> Subject:
    process, rounds = _served(tree, opened, data, new_connections=poll.new_connections)
    numbers = count()

    def work() -> None:
        for _ in range(rounds_a_window):
            rounds.send([_poll_request(poll, token, next(numbers)) for token in islice(tokens, CONNECTIONS)])

    return Subject(process, work, CONNECTIONS * rounds_a_window, rounds.reopen)


def _poll_request(poll: PollPath, token: str, number: int) -> bytes:
    """A request with the same headers and body as those of the scripts for wrk."""
    closing = "Connection: close\r\n" if poll.new_connections else ""
    head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\nUser-Agent: bench\r\nAccept: */*\r\n{closing}"
    if poll.script == "idle_poll.lua":
        return f'GET {poll.path} HTTP/1.1\r\n{head}If-None-Match: "0-0"\r\n\r\n'.encode()
    body = '{"returnImmediately":true}'
    head += f"x-fapi-interaction-id: 93bac548-d2de-4546-b106-{number:012x}\r\nContent-Type: application/json\r\n"
    return f"POST {poll.path} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def _command_pairs(tree: Tree, opened: ExitStack) -> Subject:
    data, tokens = tree.prepare(EDGE_CODE.format(sites=SITES, commands=PAIR_ROUNDS * _RUNS))
    process, rounds = _served(tree, opened, data)
    heads = [
        f"HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n".encode()
        for token in tokens.read_text().split()
    ]
    polls = [b"GET /api/edge/v1/commands/poll?limit=1 " + head + b"\r\n" for head in heads]

    def work() -> None:
        for _ in range(PAIR_ROUNDS):
            leased = rounds.send(polls)
            rounds.send([_ack_request(head, body) for head, body in zip(heads, leased, strict=True)])

    return Subject(process, work, SITES * PAIR_ROUNDS, rounds.reopen)


def _ack_request(head: bytes, leased: bytes) -> bytes:
    found = re.search(rb'"command_id":"([^"]+)".*"nonce":"([^"]+)"', leased)
    if found is None:
        raise RuntimeError(f"no command was leased: {leased!r}")
    ack = b'{"status":"succeeded","result_code":0,"nonce":"%b"}' % found[2]
    return b"POST /api/edge/v1/commands/%b/ack %bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        found[1],
        head,
        len(ack),
        ack,
    )


def _served(
    tree: Tree, opened: ExitStack, data: Path, *, new_connections: bool = False
) -> tuple[CountedProcess, Rounds]:
    folder = tree.new_folder()
    pid, port = opened.enter_context(tree.serving(data, callgrind.command(folder), callgrind.ENVIRONMENT))
    rounds = Rounds(pid, port, CONNECTIONS, new_connections=new_connections)
    opened.callback(rounds.close)
    return CountedProcess(pid, folder), rounds


_OUTBOX_CODE = f"""
try:
    from bench.delivery import delivery
except ImportError:  # an older commit
    from bench import delivery
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
database = Database(SqliteEngine(device_data.prepare(path, delivery.DEVICES).database_path))
for start in range(0, {RECIPIENTS * _RUNS}, 1000):
    database.write_now(delivery._enqueue, start)
database.close()
"""
_FLEET_CODE = f"""
device_data.prepare(path, {RECIPIENTS * _RUNS})
"""


def _program(name: str, code: str) -> HotPath:
    def start(tree: Tree, opened: ExitStack) -> Subject:
        data, _ = tree.prepare(code)
        folder = tree.new_folder()
        process = opened.enter_context(_running(tree, folder, name, data))

        def work() -> None:
            assert process.stdin is not None
            process.stdin.write(f"{RECIPIENTS}\n")
            process.stdin.flush()
            _expect(process, "done", tree)

        return Subject(CountedProcess(process.pid, folder), work, RECIPIENTS)

    return start


@contextmanager
def _running(tree: Tree, folder: Path, name: str, data: Path) -> Iterator["subprocess.Popen[str]"]:
    # -P: the folder of the program must not hide modules.
    command = [*callgrind.command(folder), sys.executable, "-P", program.__file__, name, str(data)]
    environment = {**os.environ, **tree.environment, **callgrind.ENVIRONMENT}
    with (
        (tree.folder / "log").open("w") as log,
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            _expect(process, "ready", tree)
            yield process
        finally:
            process.kill()


def _expect(process: "subprocess.Popen[str]", line: str, tree: Tree) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != f"{line}\n":
        raise NotInTree(f"{tree.name} does not run the program:\n{(tree.folder / 'log').read_text()}")


HOT_PATHS: dict[str, HotPath] = {
    **{name: _idle_polls(poll) for name, poll in IDLE_POLLS.items()},
    "first-polls": _first_polls,
    "command-pairs": _command_pairs,
    "fan-out": _program("fan-out", _FLEET_CODE),
    "publishing": _program("publishing", _OUTBOX_CODE),
}
