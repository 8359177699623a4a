"""A page of the filtered fleet list over a million devices compared with a thousand, on the embedded engine.

Every filter selects the same share of both fleets, and both pages have the same number of devices. Rounds are
interleaved. And the exact counts of the fleet list.
"""

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bench.data import device_data
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.identity.grants import ALL_IDS, AllowedIds
from restante.updates.fleet import selection
from restante.updates.fleet.device_filter import DeviceFilter, parse_object
from restante.updates.fleet.fleet_counts import FleetCounting

SMALL, LARGE = 1_000, 1_000_000
# Fewer where the small fleet has not so many.
LIMIT, LIMIT_OF_SEVERAL = 100, 20
ROUNDS = 30
FILTERS: dict[str, dict[str, Any]] = {
    "no filter": {},
    "name": {"name": "berlin"},
    "tag": {"tag": "pilot"},
    "status": {"status": "active"},
    "revoked": {"status": "revoked"},
    "platform": {"platform": "linux"},
    "agent version": {"agent_version": "1.2"},
    "config behind": {"config_version": "behind"},
    "config version": {"config_version": 5},
    "seen before": {"seen_before": "1d"},
    "seen after": {"seen_after": "1h"},
    "overdue": {"overdue": True},
    "certificate": {"certificate_expires_before": "30d"},
    "user": {"user_id": 2},
    "tag, status, platform": {"tag": "pilot", "status": "active", "platform": "linux"},
    "overdue, tag": {"overdue": True, "tag": "pilot"},
}


# The chips of the fleet list and the numbers of the overview, for an admin, for a team, and with filters.
COUNTED: dict[str, tuple[dict[str, Any], AllowedIds]] = {
    "no filter": ({}, ALL_IDS),
    "limited to two users": ({}, AllowedIds(frozenset([1, 2]))),
    "tag": ({"tag": "pilot"}, ALL_IDS),
    "expiring, active": ({"certificate_expires_before": "30d", "status": "active"}, ALL_IDS),
    "tag, status, platform": ({"tag": "pilot", "status": "active", "platform": "linux"}, ALL_IDS),
}


def fill(path: Path) -> None:
    """Describe the devices: each filter selects about a fifth of them, independently of the others."""
    now = int(time.time() * 1000)
    day, hour = 86_400_000, 3_600_000
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA synchronous = OFF")
    with conn:
        conn.execute(
            "INSERT INTO users (id, email, password_hash, role, created_at) VALUES (2, 'b@example.com', '', 'admin', 0)"
        )
        # A multiplier without common factors with the numbers of devices spreads the values over the ids.
        conn.execute(
            "UPDATE user_devices SET user_id = CASE WHEN id * 7919 % 5 = 0 THEN 2 ELSE 1 END,"
            " name = CASE WHEN id * 7919 % 5 = 1 THEN 'berlin-' ELSE 'munich-' END || id,"
            " platform = CASE WHEN id * 104729 % 7 < 2 THEN 'linux' ELSE 'windows' END,"
            " agent_version = CASE WHEN id * 104729 % 11 < 3 THEN '1.2' ELSE '1.1' END,"
            " revoked_at = CASE WHEN id * 15485863 % 6 = 0 THEN 1 END,"
            " certificate_expires_at = ? + (id * 15485863 % 10) * 10 * ?",
            (now, day),
        )
        conn.execute(
            "INSERT INTO tags SELECT 'device', id, CASE WHEN id * 32452843 % 5 = 0 THEN 'pilot' ELSE 'other' END"
            " FROM user_devices"
        )
        conn.execute(
            "INSERT INTO device_presence (device_id, last_seen_at, overdue_at) SELECT id,"
            " CASE WHEN id * 49979687 % 5 = 0 THEN ? - 2 * ? - id ELSE ? - id % 1000000 END,"
            " CASE WHEN revoked_at IS NOT NULL THEN NULL WHEN id * 49979687 % 5 = 0 THEN ? - ? - id ELSE ? + ? END"
            " FROM user_devices",
            (now, day, now, now, day, now, hour),
        )
        conn.execute(
            "INSERT INTO device_install_configs (user_device_id, version, installs_json, created_at, updated_at,"
            " fetched_version, state) SELECT id, 6, '[]', 0, 0, CASE WHEN id * 67867967 % 5 = 0 THEN 5 ELSE 6 END,"
            " CASE WHEN id * 67867967 % 5 = 0 THEN 'behind' ELSE 'fetched' END FROM user_devices"
        )
    conn.close()


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(databases: dict[int, Database], read: Callable[[Database], object]) -> tuple[float, float, float]:
    """The median milliseconds of both fleets, and the ratio."""
    for database in databases.values():
        read(database)
    times: dict[int, list[float]] = {size: [] for size in databases}
    for _ in range(ROUNDS):
        for size, database in databases.items():
            times[size].append(seconds_of(lambda database=database: read(database)))  # type: ignore[misc]
    small, large = (statistics.median(times[size]) * 1000 for size in (SMALL, LARGE))
    return small, large, large / small


def pages() -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        databases: dict[int, Database] = {}
        for size in (SMALL, LARGE):
            folder = device_data.prepare(Path(name) / str(size), size)
            fill(folder.database_path)
            databases[size] = Database(SqliteEngine(folder.database_path))
        try:
            for label, fields in FILTERS.items():
                wanted = parse_object(fields)
                small, large, ratio = measure(databases, lambda database, wanted=wanted: first_page(database, wanted))  # type: ignore[misc]
                figures[f"{label}: ms of {SMALL:,}"] = small
                figures[f"{label}: ms of {LARGE:,}"] = large
                figures[f"{label}: ratio"] = ratio
            limited = AllowedIds(frozenset([1, 2]))
            *_, ratio = measure(databases, lambda database: first_page(database, parse_object({}), limited))
            figures["limited to two users: ratio"] = ratio
            figures |= counts(databases)
        finally:
            for database in databases.values():
                database.close()
    return figures


def counts(databases: dict[int, Database]) -> dict[str, float]:
    """The milliseconds of all exact counts of a filter, when none are kept, and of the longest step of each."""
    figures: dict[str, float] = {}
    for label, (fields, users) in COUNTED.items():
        wanted = parse_object(fields)
        for size, database in databases.items():
            steps: list[float] = []
            counting = FleetCounting(wanted, users)
            while True:
                started = time.perf_counter()
                is_more = database.read_now(counting.step)
                steps.append((time.perf_counter() - started) * 1000)
                if not is_more:
                    break
            found = counting.result()
            assert found.total.is_exact
            figures[f"counts, {label}: ms of {size:,}"] = sum(steps)
            figures[f"counts, {label}: longest step, ms of {size:,}"] = max(steps)
            figures[f"counts, {label}: found of {size:,}"] = found.total.value
    return figures


def first_page(database: Database, wanted: DeviceFilter, users: AllowedIds = ALL_IDS) -> object:
    limit = LIMIT if len(msgspec.to_builtins(wanted)) < 2 else LIMIT_OF_SEVERAL
    return database.read_now(selection.page, wanted, None, limit, users)
