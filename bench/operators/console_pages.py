"""The first byte of the console's list pages over a million rows of each kind compared with a thousand, on the embedded
database.

Every state has the same share of both. The servers run beside each other, and the rounds are interleaved. The ratio of
CPU time is that of the server's processes: it says the same on a busy machine.
"""

import http.client
import sqlite3
import statistics
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.data import device_data
from bench.operators.fleet_list import fill as describe_devices
from bench.tools.processes import SERVER_CORE, free_port, pinned, scheduled_seconds, serve_command
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.events.inbox.inbox import place_of
from restante.identity.people import sessions
from restante.web.access import SESSION_COOKIE

SMALL, LARGE = 1_000, 1_000_000
ROUNDS = 15
PAGES = {
    "overview": "/console",
    "devices": "/console/devices",
    "devices, overdue": "/console/devices?overdue=true",
    "outbox": "/console/outbox",
    "outbox, failed": "/console/outbox?status=FAILED",
    "commands": "/console/commands",
    "commands, failed": "/console/commands?status=failed",
    "commands of a site": "/console/commands?site=1",
    "events": "/console/events",
    "events, errored": "/console/events?status=errored",
    "events of a client": "/console/events?client=tpp-1",
    "audit": "/console/audit",
    "miners and safety events of a site": "/console/sites/1",
    "search": "/console/search?q=no-such-thing",
}
DAY_MS = 86_400_000
# A table of the numbers from 1 to :rows.
_NUMBERS = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows)"
_FILL = (
    "INSERT INTO edge_sites (id, name, created_at) VALUES (1, 'hall', 0)",
    "INSERT INTO edge_zones (id, site_id, name, is_default, created_at) VALUES (1, 1, 'default', 1, 0)",
    "INSERT INTO event_clients (id, client_id, name, token_endpoint_auth_method, scope, set_signing_alg, created_at)"
    f" {_NUMBERS} SELECT n, 'tpp-' || n, 'tpp-' || n, 'client_secret_basic', 'eventpolling', 'PS256', :now"
    " FROM numbers WHERE n <= 20",
    "INSERT INTO device_update_outbox (device_id, event_kind, payload, status, attempts, created_at, delivered_at)"
    f" {_NUMBERS} SELECT n, 'app.note', '{{}}', CASE WHEN n % 10 = 0 THEN 'FAILED' ELSE 'DELIVERED' END, 1, :now, :now"
    " FROM numbers",
    f"INSERT INTO edge_miners (site_id, zone_id, name, created_at) {_NUMBERS} SELECT 1, 1, 'miner ' || n, :now"
    " FROM numbers",
    f"INSERT INTO telemetry_latest (miner_id, ts, received_at, samples, slot, record) {_NUMBERS}"
    ' SELECT n, :now, :now, 1, 0, \'{"temp_max":70.5,"hashrate_ths":99.1}\' FROM numbers',
    "INSERT INTO miner_commands (command_id, site_id, zone_id, miner_id, command_type, params, rank, status,"
    f" expires_at, created_at, created_by, max_retries, retry_backoff_sec, finished_at) {_NUMBERS}"
    " SELECT 'cmd_' || n, 1, 1, n, 'MINER_RESTART', '{}', :now + n,"
    " CASE WHEN n % 20 = 0 THEN 'failed' WHEN n % 20 = 1 THEN 'pending_approval' ELSE 'succeeded' END,"
    " :now + :day, :now, 'bench', 3, 30, CASE WHEN n % 20 = 1 THEN NULL ELSE :now END FROM numbers",
    "INSERT INTO command_audit (chain, n, at, actor, event, command_id, from_state, to_state, detail, hash)"
    f" {_NUMBERS} SELECT 1, n, :now, 'bench', 'command.created', 'cmd_' || n, NULL, 'pending', '{{}}', zeroblob(32)"
    " FROM numbers",
    "INSERT INTO safety_events (site_id, device_id, miner_id, action, reason, temp_max, ts, received_at)"
    f" {_NUMBERS} SELECT 1, 1, n, 'FAN_FAILURE', 'fan stopped', 91.5, :now + n, :now FROM numbers",
    "INSERT INTO event_inbox (client, jti, txn, event_types, status, profile, kid, created_at, finished_at, errored_at,"
    f" err) {_NUMBERS} SELECT n % 20 + 1, 'jti-' || n, 'txn-' || n, '[\"urn:example:events:x\"]',"
    " CASE WHEN n % 10 = 7 THEN 'errored' WHEN n % 10 = 8 THEN 'ready' ELSE 'acknowledged' END, 'open-banking', 'k',"
    " :now, CASE WHEN n % 10 IN (7, 8) THEN NULL ELSE :now END, CASE WHEN n % 10 = 7 THEN :now END,"
    " CASE WHEN n % 10 = 7 THEN 'jws' END FROM numbers",
    "INSERT INTO event_texts (place, jti, text) SELECT client * :places + id, jti, '{}' FROM event_inbox",
)


@dataclass(frozen=True, slots=True)
class Served:
    pid: int
    port: int
    cookie: str

    def read(self, path: str) -> tuple[float, float]:
        """The seconds until the first byte of the page, and the CPU seconds of the server."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        headers = {"cookie": f"{SESSION_COOKIE}={self.cookie}", "accept": "text/html"}
        used, started = scheduled_seconds(self.pid), time.perf_counter()
        client.request("GET", path, headers=headers)
        response = client.getresponse()
        seconds = time.perf_counter() - started
        body = response.read()
        client.close()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{path}: {response.status} {body[:500]!r}")
        return seconds, scheduled_seconds(self.pid) - used


def prepare(folder: Path, rows: int) -> str:
    """Fill a data folder, and return the cookie of a session."""
    data = device_data.prepare(folder, rows)
    describe_devices(data.database_path)
    conn = sqlite3.connect(data.database_path)
    conn.execute("PRAGMA synchronous = OFF")
    values = {"rows": rows, "now": int(time.time() * 1000), "day": DAY_MS, "places": place_of(1, 0)}
    with conn:
        for statement in _FILL:
            conn.execute(statement, values)
    conn.execute("ANALYZE")
    conn.close()
    database = Database(SqliteEngine(data.database_path))
    try:
        return database.write_now(sessions.start, 1, 86_400)
    finally:
        database.close()


def first_bytes() -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        served = {}
        for rows in (SMALL, LARGE):
            folder, port = Path(name) / str(rows), free_port()
            cookie = prepare(folder, rows)
            pid = stack.enter_context(pinned(SERVER_CORE, serve_command(folder, port), port))
            served[rows] = Served(pid, port, cookie)
        for label, path in PAGES.items():
            small, large = measure(served[SMALL], served[LARGE], path)
            figures[f"{label}: ms of {SMALL:,}"] = small[0] * 1000
            figures[f"{label}: ms of {LARGE:,}"] = large[0] * 1000
            figures[f"{label}: ratio"] = large[0] / small[0]
            figures[f"{label}: ratio of CPU time"] = large[1] / small[1]
    return figures


def measure(small: Served, large: Served, path: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """The median seconds and CPU seconds of the page, of both servers."""
    pairs = [(small.read(path), large.read(path)) for _ in range(ROUNDS + 1)][1:]
    (a, b), (c, d) = (zip(*each, strict=True) for each in zip(*pairs, strict=True))
    return (statistics.median(a), statistics.median(b)), (statistics.median(c), statistics.median(d))
