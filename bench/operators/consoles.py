"""The idle poll beside open consoles: twenty live pages that read themselves again, compared with none, in turns."""

import http.client
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.polls.idle_poll import ROUNDS, SECONDS, warm_server
from bench.tools.load import requests_per_second
from bench.tools.processes import CLIENT_CORE, cpu_seconds
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity.people import sessions
from restante.server.data_folder import DataFolder
from restante.web.access import SESSION_COOKIE

CONSOLES = 20
PAGES = ("/console", "/console/devices", "/console/outbox", "/console/devices/1")
# As `live.js` waits between two readings of a page.
WAIT_SECONDS = 1.5
QUIET_SECONDS = 20


class LivePage(threading.Thread):
    """What a browser does with a live page: follow its stream, and read the page again after each notice."""

    def __init__(self, port: int, cookie: str, path: str) -> None:
        super().__init__(daemon=True)
        self._port, self._path = port, path
        self._headers = {"cookie": f"{SESSION_COOKIE}={cookie}", "accept": "text/html"}
        self._stream = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.is_stopping = False
        self.pages_read = 0

    def run(self) -> None:
        # The stream is closed while it is read.
        with suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            self._stream.request("GET", "/console/live?topics=updates,clock", headers=self._headers)
            response = self._stream.getresponse()
            while not self.is_stopping:
                if response.readline().startswith(b"event: changed"):
                    self._read()
                    time.sleep(WAIT_SECONDS)

    def stop(self) -> None:
        self.is_stopping = True
        self._stream.close()

    def _read(self) -> None:
        page = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        page.request("GET", self._path, headers=self._headers)
        if page.getresponse().status == http.HTTPStatus.OK:
            self.pages_read += 1
        page.close()


@contextmanager
def open_consoles(port: int, cookie: str) -> Iterator[list[LivePage]]:
    pages = [LivePage(port, cookie, PAGES[number % len(PAGES)]) for number in range(CONSOLES)]
    for page in pages:
        page.start()
    time.sleep(1)
    try:
        yield pages
    finally:
        for page in pages:
            page.stop()


def beside_consoles(tokens: int = 20_000) -> dict[str, float]:
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    pairs, pages_read = [], 0
    with tempfile.TemporaryDirectory() as name, warm_server(Path(name), tokens, tokens) as (pid, port, token_file):
        database = Database(SqliteEngine(DataFolder(Path(name) / "data").database_path))
        cookie = database.write_now(sessions.start, 1, 86_400)
        database.close()
        requests_per_second(port, token_file, 2)
        for _ in range(ROUNDS):
            alone = requests_per_second(port, token_file, SECONDS)
            with open_consoles(port, cookie) as pages:
                pairs.append((alone, requests_per_second(port, token_file, SECONDS)))
                pages_read += sum(page.pages_read for page in pages)
        idle = cpu_seconds([pid])
        time.sleep(QUIET_SECONDS)
        idle = cpu_seconds([pid]) - idle
        with open_consoles(port, cookie):
            watched = cpu_seconds([pid])
            time.sleep(QUIET_SECONDS)
            watched = cpu_seconds([pid]) - watched
    return {
        "requests/s without consoles (median)": statistics.median(pair[0] for pair in pairs),
        f"requests/s beside {CONSOLES} live pages (median)": statistics.median(pair[1] for pair in pairs),
        "ratio (median of rounds)": statistics.median(beside / alone for alone, beside in pairs),
        "pages read again, all rounds": pages_read,
        f"share of a core for {CONSOLES} live pages, no polls": (watched - idle) / QUIET_SECONDS,
    }
