"""Edge commands: leases and ACKs over HTTP against direct calls, claims by queue length, the idle poll."""

import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from bench import edge_site
from bench.load import nginx, requests_per_second
from bench.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned
from restante.commands import acks, claims
from restante.commands.ack_body import AckBody, read_ack
from restante.commands.acks import AckOptions, Said
from restante.commands.audit import KEY_PURPOSE, AuditTrail
from restante.commands.claims import Claim, ClaimOptions
from restante.commands.collectors import SecretBox
from restante.commands.rate_windows import RateLimit, RateRules
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity import collector_tokens
from restante.identity.master_key import MasterKeySource
from restante.server.data_folder import DataFolder

SITES = 64
PAIRS = 32_000
NO_LIMIT = RateRules({}, RateLimit(1_000_000, 60))
ROUNDS = 5


class _Collector(asyncio.Protocol):
    """Polls for one command and acknowledges it, again and again, until there are none."""

    def __init__(self, token: str, done: "_Work") -> None:
        bearer = f"Authorization: Bearer {token}\r\n"
        self._poll = f"GET /api/edge/v1/commands/poll?limit=1 HTTP/1.1\r\nHost: localhost\r\n{bearer}\r\n".encode()
        self._ack = f"HTTP/1.1\r\nHost: localhost\r\n{bearer}Content-Type: application/json\r\n".encode()
        self._done = done
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
            self._polled(body)
        else:
            self._is_polling = True
            self._done.count()
            self.transport.write(self._poll)

    def _polled(self, body: bytes) -> None:
        command = re.search(rb'"command_id":"([^"]+)".*"nonce":"([^"]+)"', body)
        if command is None:
            self._done.ran_dry()
            return
        self._is_polling = False
        ack = b'{"status":"succeeded","result_code":0,"nonce":"%b"}' % command[2]
        self.transport.write(
            b"POST /api/edge/v1/commands/%b/ack %bContent-Length: %d\r\n\r\n%b" % (command[1], self._ack, len(ack), ack)
        )


class _Work:
    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self.finished: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def count(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.finished.set_result(time.perf_counter())

    def ran_dry(self) -> None:
        if not self.finished.done():
            self.finished.set_exception(RuntimeError(f"{self._left} pairs are missing"))


async def _collect(port: int, tokens: list[str], pairs: int) -> float:
    loop = asyncio.get_running_loop()
    work = _Work(pairs)
    collectors = [
        (await loop.create_connection(partial(_Collector, token, work), "127.0.0.1", port))[1] for token in tokens
    ]
    started = time.perf_counter()
    for collector in collectors:
        collector.start()
    seconds = await work.finished - started
    for collector in collectors:
        collector.transport.abort()
    return pairs / seconds


def _server_command(folder: DataFolder, port: int) -> list[str]:
    limits = "default=1000000/60"
    return [
        str(Path(sys.executable).with_name("restante")), "serve", "--data", str(folder.path), "--listen",
        f"127.0.0.1:{port}", "--command-rate-limits", limits, "--log-level", "error",
    ]  # fmt: skip


def pairs_over_http() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        http = edge_site.prepare(Path(name) / "http", SITES, PAIRS // SITES + 200)
        direct = edge_site.prepare(Path(name) / "direct", SITES, PAIRS // SITES + 200)
        port = free_port()
        signed = {"ENABLE_COMMAND_SIGNATURE": "true"}
        with pinned(SERVER_CORE, _server_command(http.folder, port), port, signed, Path(name) / "log"):
            os.sched_setaffinity(0, {int(CLIENT_CORE)})
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_collect(port, http.tokens, 2000))
                over_http = runner.run(_collect(port, http.tokens, PAIRS))
        os.sched_setaffinity(0, {int(SERVER_CORE)})
        directly = _pairs_directly(direct)
        os.sched_setaffinity(0, {0, 1})
    return {
        "pairs/s over HTTP, 64 collectors on 64 sites, signed, durable": over_http,
        "pairs/s by direct calls, the same": directly,
        "ratio": over_http / directly,
    }


def _pairs_directly(edge: edge_site.EdgeSites) -> float:
    """The same claims and ACKs, 64 at a time, as calls of the database layer on the same core."""
    database = Database(SqliteEngine(edge.folder.database_path))
    master_key = MasterKeySource(edge.folder.master_key_path, None).make()
    trail, box = AuditTrail(master_key.derived(KEY_PURPOSE)), SecretBox(master_key)
    claim_options, ack_options = ClaimOptions(60, NO_LIMIT, is_signed=True), AckOptions(box)
    callers = [database.read_now(collector_tokens.find, token) for token in edge.tokens]
    read = read_ack(AckBody(status="succeeded", result_code=0), b"{}")
    # The server's own operations, so that calls run together as they do there.
    claiming = claims.claiming(trail, claim_options)
    taking = acks.taking_acks(trail, ack_options)

    async def collector(caller: Any, pairs: int) -> None:
        for _ in range(pairs):
            claimed = await database.run_hot(claiming, Claim(caller, None, 1))
            taken = await database.run_hot(taking, Said(caller, claimed.commands[0].command_id, read))
            assert isinstance(taken, acks.Taken), taken

    async def all_collectors() -> None:
        await asyncio.gather(*(collector(caller, PAIRS // SITES) for caller in callers))

    started = time.perf_counter()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_collectors())
    seconds = time.perf_counter() - started
    database.close()
    return PAIRS / seconds


def claims_by_queue_length(small: int = 1, large: int = 1000, site_count: int = 1000) -> dict[str, float]:
    """What a claim of one costs with a thousand commands pending and with a million, over a thousand sites."""
    with tempfile.TemporaryDirectory() as name:
        databases = []
        for each in (small, large):
            edge = edge_site.prepare(Path(name) / str(each), site_count, each + 1)
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
    options = ClaimOptions(60, NO_LIMIT)

    def claim_each(conn: Connection) -> float:
        started = time.perf_counter()
        for caller in callers:
            claims.claim(conn, trail, options, Claim(caller, None, 1))
        seconds = time.perf_counter() - started
        raise _Undone(seconds / len(callers) * 1e6)

    # Rolled back, so that each round finds the same queues.
    try:
        database.write_now(claim_each)
    except _Undone as undone:
        return undone.microseconds
    raise AssertionError("a round must be undone")


class _Undone(Exception):
    def __init__(self, microseconds: float) -> None:
        super().__init__(microseconds)
        self.microseconds = microseconds


def idle_poll() -> dict[str, float]:
    """Polls of sites with nothing to do, against nginx answering the same number of bytes."""
    with tempfile.TemporaryDirectory() as name:
        edge = edge_site.prepare(Path(name) / "data", 1000, 0)
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
            pinned(SERVER_CORE, _server_command(edge.folder, port), port, log=Path(name) / "log"),
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
