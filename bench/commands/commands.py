"""Edge commands: leases and ACKs over HTTP compared with direct calls, claims by queue length, the idle poll."""

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from bench.commands.direct_pairs import DATA, NO_LIMIT, TOKENS, DirectPairs, PairCalls
from bench.data import edge_data
from bench.tools.load import nginx, requests_per_second
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned, serve_command
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import ClaimOptions, ClaimRequest
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity.clients import collector_tokens
from restante.server.data_folder import DataFolder
from restante.server.lifecycle import collect_garbage_rarely

SITES = 64
PAIR_ROUNDS = 8
PAIRS_A_ROUND = 4_000
# A collector that is faster than the others gets more than its part.
COMMANDS_OF_SITE = (PAIR_ROUNDS + 1) * PAIRS_A_ROUND // SITES + 200
ROUNDS = 5


class _Collector(asyncio.Protocol):
    """Polls for one command and acknowledges it, until there are none."""

    def __init__(self, token: str, progress: "_Progress") -> None:
        bearer = f"Authorization: Bearer {token}\r\n"
        self._poll = f"GET /api/edge/v1/commands/poll?limit=1 HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n".encode()
        self._ack = f"HTTP/1.1\r\nHost: localhost\r\n{bearer}Content-Type: application/json\r\n".encode()
        self._progress = progress
        self._received = b""
        self._is_polling = True

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def start(self) -> None:
        self.transport.write(self._poll)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, gap, body = self._received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if not gap or length is None or len(body) < int(length[1]):
            return
        self._received = b""
        assert head.startswith(b"HTTP/1.1 200"), head + body
        if self._is_polling:
            self._acknowledge(body)
        else:
            self._is_polling = True
            self._progress.count()
            self.transport.write(self._poll)

    def _acknowledge(self, body: bytes) -> None:
        command = re.search(rb'"command_id":"([^"]+)".*"nonce":"([^"]+)"', body)
        if command is None:
            self._progress.fail()
            return
        self._is_polling = False
        ack = b'{"status":"succeeded","result_code":0,"nonce":"%b"}' % command[2]
        self.transport.write(
            b"POST /api/edge/v1/commands/%b/ack %bContent-Length: %d\r\n\r\n%b" % (command[1], self._ack, len(ack), ack)
        )


class _Progress:
    def __init__(self, pairs: int) -> None:
        self._left = pairs
        self.finished: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.finished.set_result(time.perf_counter())

    def fail(self) -> None:
        if not self.finished.done():
            self.finished.set_exception(RuntimeError(f"{self._left} pairs are missing"))


async def collect(port: int, tokens: list[str], pairs: int) -> float:
    loop = asyncio.get_running_loop()
    progress = _Progress(pairs)
    collectors = [
        (await loop.create_connection(partial(_Collector, token, progress), "127.0.0.1", port))[1] for token in tokens
    ]
    started = time.perf_counter()
    for collector in collectors:
        collector.start()
    seconds = await progress.finished - started
    for collector in collectors:
        collector.transport.abort()
    return pairs / seconds


def server_command(folder: DataFolder, port: int) -> list[str]:
    return serve_command(folder.path, port, "--command-rate-limits", "default=1000000/60", "--log-level", "error")


def pairs_over_http() -> dict[str, float]:
    """Rounds over HTTP, behind a bare protocol and by direct calls in turn, because the load of the machine varies.

    This process collects garbage as rarely as the server.
    """
    collect_garbage_rarely()
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        folder = Path(name)
        http, direct, bare = [
            edge_data.prepare(folder / each, SITES, COMMANDS_OF_SITE) for each in ("http", "direct", DATA)
        ]
        (folder / TOKENS).write_text("\n".join(bare.tokens))
        port, bare_port = free_port(), free_port()
        signed = {"ENABLE_COMMAND_SIGNATURE": "true"}
        bare_command = [sys.executable, "-m", "bench.commands.direct_pairs", name, str(bare_port)]
        opened.enter_context(pinned(SERVER_CORE, server_command(http.folder, port), port, signed, folder / "log"))
        opened.enter_context(pinned(SERVER_CORE, bare_command, bare_port, log=folder / "bare-log"))
        opened.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        # The threads of the database run where this one runs now.
        os.sched_setaffinity(0, {int(SERVER_CORE)})
        direct_pairs = opened.enter_context(closing(DirectPairs(PairCalls(direct.folder, direct.tokens))))
        rounds: list[_PairRound] = []
        for _ in range(PAIR_ROUNDS + 1):
            os.sched_setaffinity(0, {int(CLIENT_CORE)})
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                over_http = runner.run(collect(port, http.tokens, PAIRS_A_ROUND))
                behind_bare = runner.run(collect(bare_port, bare.tokens, PAIRS_A_ROUND))
            os.sched_setaffinity(0, {int(SERVER_CORE)})
            rounds.append(_PairRound(over_http, behind_bare, direct_pairs.per_second(PAIRS_A_ROUND)))
    # The first round warms up.
    rounds = rounds[1:]
    over_http, behind_bare, directly = (statistics.median(rates) for rates in zip(*rounds, strict=True))
    ratios = [each.over_http / each.directly for each in rounds]
    return {
        "pairs/s over HTTP, 64 collectors on 64 sites, signed, durable (median)": over_http,
        "pairs/s behind a bare protocol, which checks and signs nothing (median)": behind_bare,
        "pairs/s by direct calls (median)": directly,
        "HTTP to direct calls (median of rounds)": statistics.median(ratios),
        "lowest round": min(ratios),
        "highest round": max(ratios),
        "the bare protocol to direct calls": statistics.median(each.behind_bare / each.directly for each in rounds),
        "HTTP to the bare protocol": statistics.median(each.over_http / each.behind_bare for each in rounds),
    }


class _PairRound(NamedTuple):
    """Pairs a second."""

    over_http: float
    behind_bare: float
    directly: float


def claims_by_queue_length(small: int = 1, large: int = 1000, site_count: int = 1000) -> dict[str, float]:
    """The cost of a claim of one command with a thousand and with a million pending commands, over a thousand sites."""
    with tempfile.TemporaryDirectory() as name:
        databases = []
        for each in (small, large):
            edge = edge_data.prepare(Path(name) / str(each), site_count, each + 1)
            database = Database(SqliteEngine(edge.folder.database_path))
            callers = [database.read_now(collector_tokens.find, token) for token in edge.tokens]
            databases.append((database, callers, AuditTrail(bytes(32))))
        pairs = [tuple(_claim_microseconds(*each) for each in databases) for _ in range(ROUNDS)]
        for database, _, _ in databases:
            database.close()
    return {
        f"µs a claim, {small * site_count:,} pending (median)": statistics.median(pair[0] for pair in pairs),
        f"µs a claim, {large * site_count:,} pending (median)": statistics.median(pair[1] for pair in pairs),
        "ratio (median of rounds)": statistics.median(large / small for small, large in pairs),
    }


def _claim_microseconds(database: Database, callers: list[Any], trail: AuditTrail) -> float:
    options = ClaimOptions(60, NO_LIMIT, is_signed=False, is_one_lease_per_miner=True)

    def claim_each(conn: Connection) -> float:
        started = time.perf_counter()
        for caller in callers:
            claims.claim(conn, trail, options, ClaimRequest(caller, None, 1))
        seconds = time.perf_counter() - started
        raise _RolledBack(seconds / len(callers) * 1e6)

    # Roll back, so that each round starts with the same queues.
    try:
        database.write_now(claim_each)
    except _RolledBack as rolled_back:
        return rolled_back.microseconds
    raise AssertionError("a round must be rolled back")


class _RolledBack(Exception):
    def __init__(self, microseconds: float) -> None:
        super().__init__(microseconds)
        self.microseconds = microseconds


def idle_poll() -> dict[str, float]:
    """Polls of sites without commands, compared with nginx sending the same number of bytes."""
    with tempfile.TemporaryDirectory() as name:
        edge = edge_data.prepare(Path(name) / "data", 1000, 0)
        token_file = Path(name) / "tokens"
        token_file.write_text("\n".join(edge.tokens) + "\n")
        port = free_port()
        body = (
            '{"commands":[],"miner_command_count":0,"remote_command_count":0,"rate_limited_count":0,'
            '"server_time":"2026-11-16T03:59:52Z"}'
        )
        path = "/api/edge/v1/commands/poll"
        ratios, ours, theirs = [], [], []
        with (
            nginx(Path(name), body) as reference,
            pinned(SERVER_CORE, server_command(edge.folder, port), port, log=Path(name) / "log"),
        ):
            requests_per_second(port, token_file, 2, path)
            for _ in range(ROUNDS):
                theirs.append(requests_per_second(reference, token_file, 4, path))
                ours.append(requests_per_second(port, token_file, 4, path))
                ratios.append(ours[-1] / theirs[-1])
    return {
        "nginx requests/s (median)": statistics.median(theirs),
        "restante requests/s (median)": statistics.median(ours),
        "ratio (median of rounds)": statistics.median(ratios),
    }
