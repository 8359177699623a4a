"""Event polling: events fetched and acknowledged over HTTP, the idle poll against nginx, polls by what waits."""

import asyncio
import json
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

from bench import event_bank
from bench.load import nginx, requests_per_second
from bench.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned
from restante.core.acknowledgement import verdicts_of
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.hot import HotOperation
from restante.database.sqlite import SqliteEngine
from restante.events import inbox
from restante.events.inbox import Handed, InboxOptions, Wish
from restante.server.data_folder import DataFolder

CLIENTS = 20
BATCH = 100
EVENTS_EACH = 3_000
ROUNDS = 5
PATH = "/events"


class _Client(asyncio.Protocol):
    """Polls for a batch and acknowledges it with the next poll, until nothing is left."""

    def __init__(self, token: str, work: "_Work") -> None:
        self._head = (
            f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            "x-fapi-interaction-id: 93bac548d2de4546b106880a5018460d\r\nContent-Type: application/json\r\n"
        ).encode()
        self._work = work
        self._received = bytearray()
        self._said = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def poll(self, ack: list[str]) -> None:
        self._said = len(ack)
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
        self._work.count(self._said)
        if body["sets"]:
            self.poll(list(body["sets"]))


class _Work:
    def __init__(self, wanted: int) -> None:
        self._left = wanted
        self.finished: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def count(self, acknowledged: int) -> None:
        self._left -= acknowledged
        if self._left == 0 and not self.finished.done():
            self.finished.set_result(time.perf_counter())


async def _fetch_all(port: int, tokens: list[str], events: int) -> float:
    loop = asyncio.get_running_loop()
    work = _Work(events)
    clients = [(await loop.create_connection(partial(_Client, token, work), "127.0.0.1", port))[1] for token in tokens]
    started = time.perf_counter()
    for client in clients:
        client.poll([])
    seconds = await work.finished - started
    for client in clients:
        client.transport.abort()
    return events / seconds


def _server_command(folder: DataFolder, port: int) -> list[str]:
    return [
        str(Path(sys.executable).with_name("restante")), "serve", "--data", str(folder.path), "--listen",
        f"127.0.0.1:{port}", "--log-level", "error", "--events-poll-rate-per-second", "100000",
        "--events-poll-burst", "1000000",
    ]  # fmt: skip


def fetched_over_http() -> dict[str, float]:
    """20 clients, each poll for 100 events acknowledging the last 100, every commit durable; and by direct calls."""
    events = CLIENTS * EVENTS_EACH
    with tempfile.TemporaryDirectory() as name:
        http = event_bank.prepare(Path(name) / "http", CLIENTS, EVENTS_EACH)
        direct = event_bank.prepare(Path(name) / "direct", CLIENTS, EVENTS_EACH)
        port = free_port()
        with pinned(SERVER_CORE, _server_command(http.folder, port), port, log=Path(name) / "log"):
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


def _fetched_directly(bank: event_bank.EventBank) -> float:
    """The same polls, 20 at a time, as calls of the database layer on the same core."""
    database = Database(SqliteEngine(bank.folder.database_path))
    options = InboxOptions()

    def take_many(conn: Connection, wishes: list[Wish]) -> Any:
        return inbox.take_many(conn, options, wishes)

    operation: HotOperation[Wish, Handed] = HotOperation(take_many)

    async def client(number: int) -> None:
        handed = await database.run_hot(operation, Wish(number, BATCH))
        while handed.sets:
            handed = await database.run_hot(operation, Wish(number, BATCH, verdicts_of(handed.sets, {})))

    async def all_clients() -> None:
        await asyncio.gather(*(client(number + 1) for number in range(CLIENTS)))

    started = time.perf_counter()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(all_clients())
    seconds = time.perf_counter() - started
    database.close()
    return CLIENTS * EVENTS_EACH / seconds


def polls_by_inbox_size(small: int = 1_000, large: int = 1_000_000, clients: int = 1_000) -> dict[str, float]:
    """What a poll for 100 costs with a thousand events waiting and with a million: alone, and acknowledging 100.

    In processor time, the kernel's for reading files in it. The thousand are five clients' 200, so that a poll that
    acknowledges 100 is handed 100; the million are a thousand clients'.
    """
    with tempfile.TemporaryDirectory() as name:
        few = event_bank.prepare(Path(name) / "few", small // (2 * BATCH), 2 * BATCH)
        many = event_bank.prepare(Path(name) / "many", clients, large // clients)
        databases = [Database(SqliteEngine(bank.folder.database_path)) for bank in (few, many)]
        sizes = [small // (2 * BATCH), clients]
        figures: dict[str, float] = {}
        for label, work in (("poll", _look_microseconds), ("poll and acknowledge", _take_microseconds)):
            # Once unmeasured: a file that was only just written is in nobody's memory yet.
            for database, size in zip(databases, sizes, strict=True):
                work(database, size)
            pairs = [[work(*each) for each in zip(databases, sizes, strict=True)] for _ in range(ROUNDS)]
            figures[f"µs a {label}, {small:,} waiting (median)"] = statistics.median(pair[0] for pair in pairs)
            figures[f"µs a {label}, {large:,} waiting (median)"] = statistics.median(pair[1] for pair in pairs)
            figures[f"{label}: ratio (median of rounds)"] = statistics.median(much / little for little, much in pairs)
        for database in databases:
            database.close()
    return figures


POLLS = 200


def _look_microseconds(database: Database, clients: int) -> float:
    def look_at_each(conn: Connection) -> float:
        started = time.thread_time()
        for number in range(POLLS):
            inbox.take(conn, InboxOptions(), Wish(number * 7919 % clients + 1, BATCH))
        raise _Undone((time.thread_time() - started) / POLLS * 1e6)

    return _undone(database, look_at_each)


def _take_microseconds(database: Database, clients: int) -> float:
    def take_from_each(conn: Connection) -> float:
        seconds = 0.0
        count = min(POLLS, clients)
        for number in range(count):
            client = number * 7919 % clients + 1
            handed = inbox.take(conn, InboxOptions(), Wish(client, BATCH))
            started = time.thread_time()
            inbox.take(conn, InboxOptions(), Wish(client, BATCH, verdicts_of(handed.sets, {})))
            seconds += time.thread_time() - started
        raise _Undone(seconds / count * 1e6)

    return _undone(database, take_from_each)


def _undone(database: Database, work: Any) -> float:
    """What the work measured; it is rolled back, so that each round finds the same inboxes."""
    try:
        database.write_now(work)
    except _Undone as undone:
        return undone.microseconds
    raise AssertionError("a round must be undone")


class _Undone(Exception):
    def __init__(self, microseconds: float) -> None:
        super().__init__(microseconds)
        self.microseconds = microseconds


def idle_poll(clients: int = 1_000) -> dict[str, float]:
    """Polls of clients with empty inboxes, against nginx answering the same bytes to the same requests."""
    with tempfile.TemporaryDirectory() as name:
        bank = event_bank.prepare(Path(name) / "data", clients, 0)
        token_file = Path(name) / "tokens"
        token_file.write_text("\n".join(bank.tokens) + "\n")
        port = free_port()
        ratios, ours, theirs = [], [], []
        with (
            nginx(Path(name), '{"sets":{},"moreAvailable":false}') as reference,
            pinned(SERVER_CORE, _server_command(bank.folder, port), port, log=Path(name) / "log"),
        ):
            requests_per_second(port, token_file, 3, PATH, script="post_events.lua")
            for _ in range(ROUNDS):
                theirs.append(requests_per_second(reference, token_file, 4, PATH, script="post_events.lua"))
                ours.append(requests_per_second(port, token_file, 4, PATH, script="post_events.lua"))
                ratios.append(ours[-1] / theirs[-1])
    return {
        "nginx requests/s (median)": statistics.median(theirs),
        "restante requests/s (median)": statistics.median(ours),
        "ratio (median of rounds)": statistics.median(ratios),
        "ratio (lowest round)": min(ratios),
    }
