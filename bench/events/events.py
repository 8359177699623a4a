"""Event polling: events fetched and acknowledged over HTTP, the idle poll compared with nginx, polls by inbox size."""

import asyncio
import json
import os
import re
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from bench.data import event_data
from bench.tools.load import nginx, requests_per_second
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned, serve_command
from restante.core.events.poll_acks import verdicts_of
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.database.writer.batching import BatchOperation
from restante.events.inbox import inbox
from restante.events.inbox.inbox import InboxPollRequest, InboxPollResult
from restante.server.data_folder import DataFolder
from tests.events.default_options import inbox_options

CLIENTS = 20
BATCH = 100
EVENTS_PER_CLIENT = 3_000
ROUNDS = 5
PATH = "/events"
INBOX_OPTIONS = inbox_options()


class _Client(asyncio.Protocol):
    """Polls for a batch and acknowledges it with the next poll, until nothing is left."""

    def __init__(self, token: str, progress: "_Progress") -> None:
        self._head = (
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            "x-fapi-interaction-id: 93bac548d2de4546b106880a5018460d\r\nContent-Type: application/json\r\n"
        ).encode()
        self._progress = progress
        self._received = bytearray()
        self._acknowledged = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def poll(self, ack: list[str]) -> None:
        self._acknowledged = len(ack)
        body = json.dumps({"returnImmediately": True, "maxEvents": BATCH, "ack": ack}).encode()
        self.transport.write(self._head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", self._received[: max(head_end, 0)])
        if length is None or len(self._received) < head_end + 4 + int(length[1]):
            return
        body = json.loads(self._received[head_end + 4 :])
        self._received.clear()
        self._progress.count(self._acknowledged)
        if body["sets"]:
            self.poll(list(body["sets"]))


class _Progress:
    def __init__(self, events: int) -> None:
        self._left = events
        self.finished: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def count(self, acknowledged: int) -> None:
        self._left -= acknowledged
        if self._left == 0 and not self.finished.done():
            self.finished.set_result(time.perf_counter())


async def _fetch_all(port: int, tokens: list[str], events: int) -> float:
    loop = asyncio.get_running_loop()
    progress = _Progress(events)
    clients = [
        (await loop.create_connection(partial(_Client, token, progress), "127.0.0.1", port))[1] for token in tokens
    ]
    started = time.perf_counter()
    for client in clients:
        client.poll([])
    seconds = await progress.finished - started
    for client in clients:
        client.transport.abort()
    return events / seconds


def server_command(folder: DataFolder, port: int) -> list[str]:
    no_rate_limit = ("--events-poll-rate-per-second", "100000", "--events-poll-burst", "1000000")
    return serve_command(folder.path, port, "--log-level", "error", *no_rate_limit)


def fetched_over_http() -> dict[str, float]:
    """20 clients, each poll fetches 100 events and acknowledges the last 100, durably, and direct calls."""
    events = CLIENTS * EVENTS_PER_CLIENT
    with tempfile.TemporaryDirectory() as name:
        http = event_data.prepare(Path(name) / "http", CLIENTS, EVENTS_PER_CLIENT)
        direct = event_data.prepare(Path(name) / "direct", CLIENTS, EVENTS_PER_CLIENT)
        port = free_port()
        with pinned(SERVER_CORE, server_command(http.folder, port), port, log=Path(name) / "log"):
            os.sched_setaffinity(0, {int(CLIENT_CORE)})
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                over_http = runner.run(_fetch_all(port, http.tokens, events))
        os.sched_setaffinity(0, {int(SERVER_CORE)})
        directly = _fetched_directly(direct)
        os.sched_setaffinity(0, {0, 1})
    return {
        "events/s fetched and acknowledged over HTTP, 20 clients, by 100": over_http,
        "events/s by direct calls, the same": directly,
        "ratio": over_http / directly,
    }


def _fetched_directly(data: event_data.EventData) -> float:
    """The same polls, 20 at a time, as calls of the database layer on the same core."""
    database = Database(SqliteEngine(data.folder.database_path))
    options = INBOX_OPTIONS

    def poll_many(conn: Connection, requests: list[InboxPollRequest]) -> Any:
        return inbox.poll_inboxes(conn, options, requests)

    operation: BatchOperation[InboxPollRequest, InboxPollResult] = BatchOperation(poll_many)

    async def client(number: int) -> None:
        result = await database.run_batched(operation, InboxPollRequest(number, BATCH))
        while result.sets:
            result = await database.run_batched(
                operation, InboxPollRequest(number, BATCH, verdicts_of(result.sets, {}))
            )

    async def all_clients() -> None:
        await asyncio.gather(*(client(number + 1) for number in range(CLIENTS)))

    started = time.perf_counter()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_clients())
    seconds = time.perf_counter() - started
    database.close()
    return CLIENTS * EVENTS_PER_CLIENT / seconds


def polls_by_inbox_size(small: int = 1_000, large: int = 1_000_000, clients: int = 1_000) -> dict[str, float]:
    """The cost of a poll for 100 events with a thousand and with a million events waiting: with and without 100 ACKs.

    The unit is CPU time, including the kernel's for reading files. The thousand events belong to five clients, 200
    each, so that a poll that acknowledges 100 gets another 100; the million belong to a thousand clients.
    """
    with tempfile.TemporaryDirectory() as name:
        few = event_data.prepare(Path(name) / "few", small // (2 * BATCH), 2 * BATCH)
        many = event_data.prepare(Path(name) / "many", clients, large // clients)
        databases = [Database(SqliteEngine(data.folder.database_path)) for data in (few, many)]
        sizes = [small // (2 * BATCH), clients]
        figures: dict[str, float] = {}
        for label, work in (("poll", _poll_microseconds), ("poll and acknowledge", _acknowledge_microseconds)):
            # Once without measuring, to bring the new file into the cache.
            for database, size in zip(databases, sizes, strict=True):
                work(database, size)
            pairs = [[work(*each) for each in zip(databases, sizes, strict=True)] for _ in range(ROUNDS)]
            figures[f"µs a {label}, {small:,} waiting (median)"] = statistics.median(pair[0] for pair in pairs)
            figures[f"µs a {label}, {large:,} waiting (median)"] = statistics.median(pair[1] for pair in pairs)
            figures[f"{label}: ratio (median of rounds)"] = statistics.median(large / small for small, large in pairs)
        for database in databases:
            database.close()
    return figures


POLLS = 200


def _poll_microseconds(database: Database, clients: int) -> float:
    def poll_each(conn: Connection) -> float:
        started = time.thread_time()
        for number in range(POLLS):
            inbox.poll_inbox(conn, INBOX_OPTIONS, InboxPollRequest(number * 7919 % clients + 1, BATCH))
        raise _RolledBack((time.thread_time() - started) / POLLS * 1e6)

    return _measure_and_roll_back(database, poll_each)


def _acknowledge_microseconds(database: Database, clients: int) -> float:
    def acknowledge_each(conn: Connection) -> float:
        seconds = 0.0
        count = min(POLLS, clients)
        for number in range(count):
            client = number * 7919 % clients + 1
            result = inbox.poll_inbox(conn, INBOX_OPTIONS, InboxPollRequest(client, BATCH))
            started = time.thread_time()
            inbox.poll_inbox(conn, INBOX_OPTIONS, InboxPollRequest(client, BATCH, verdicts_of(result.sets, {})))
            seconds += time.thread_time() - started
        raise _RolledBack(seconds / count * 1e6)

    return _measure_and_roll_back(database, acknowledge_each)


def _measure_and_roll_back(database: Database, work: Any) -> float:
    """Returns the measured time; the work is rolled back, so that each round starts with the same inboxes."""
    try:
        database.write_now(work)
    except _RolledBack as rolled_back:
        return rolled_back.microseconds
    raise AssertionError("a round must be rolled back")


class _RolledBack(Exception):
    def __init__(self, microseconds: float) -> None:
        super().__init__(microseconds)
        self.microseconds = microseconds


def idle_poll(clients: int = 1_000) -> dict[str, float]:
    """Polls of clients with empty inboxes, compared with nginx sending the same bytes for the same requests."""
    with tempfile.TemporaryDirectory() as name:
        data = event_data.prepare(Path(name) / "data", clients, 0)
        token_file = Path(name) / "tokens"
        token_file.write_text("\n".join(data.tokens) + "\n")
        port = free_port()
        ratios, ours, theirs = [], [], []
        with (
            nginx(Path(name), '{"sets":{},"moreAvailable":false}') as reference,
            pinned(SERVER_CORE, server_command(data.folder, port), port, log=Path(name) / "log"),
        ):
            requests_per_second(port, token_file, 3, PATH, script="event_poll.lua")
            for _ in range(ROUNDS):
                theirs.append(requests_per_second(reference, token_file, 4, PATH, script="event_poll.lua"))
                ours.append(requests_per_second(port, token_file, 4, PATH, script="event_poll.lua"))
                ratios.append(ours[-1] / theirs[-1])
    return {
        "nginx requests/s (median)": statistics.median(theirs),
        "restante requests/s (median)": statistics.median(ours),
        "ratio (median of rounds)": statistics.median(ratios),
        "ratio (lowest round)": min(ratios),
    }
