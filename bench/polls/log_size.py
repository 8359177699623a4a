"""Read 20 signals from the middle of a device's log: a log of five million rows compared with five thousand."""

import random
import statistics
import tempfile
import time
from pathlib import Path

from bench.data import device_data
from restante.core.cursor import Position
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.delivery.log import log

SIGNALS = 1000
READS = 2000
ROUNDS = 7


def _middles(database: Database, devices: int) -> list[tuple[int, Position]]:
    rng = random.Random(1)
    reads = []
    for _ in range(READS):
        device_id = rng.randint(1, devices)
        head = database.read_now(log.read_head, device_id)
        reads.append((device_id, Position(head.newest.ms - SIGNALS // 2, head.newest.n - SIGNALS // 2)))
    return reads


def _read_all(conn: Connection, reads: list[tuple[int, Position]]) -> float:
    started = time.perf_counter()
    for device_id, cursor in reads:
        assert len(log.read(conn, device_id, cursor, 20).entries) == 20
    return (time.perf_counter() - started) / len(reads) * 1e6


def reading_by_log_size(small_devices: int = 5, large_devices: int = 5000) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        databases = []
        for devices in (small_devices, large_devices):
            folder = device_data.prepare(Path(name) / str(devices), devices)
            device_data.fill_log(folder.database_path, range(1, devices + 1), SIGNALS)
            databases.append(Database(SqliteEngine(folder.database_path)))
        small, large = databases
        small_reads, large_reads = _middles(small, small_devices), _middles(large, large_devices)
        pairs = [
            (small.read_now(_read_all, small_reads), large.read_now(_read_all, large_reads)) for _ in range(ROUNDS)
        ]
        for database in databases:
            database.close()
    return {
        f"µs a read, {small_devices * SIGNALS:,} rows (median)": statistics.median(pair[0] for pair in pairs),
        f"µs a read, {large_devices * SIGNALS:,} rows (median)": statistics.median(pair[1] for pair in pairs),
        "ratio (median of rounds)": statistics.median(large / small for small, large in pairs),
    }
