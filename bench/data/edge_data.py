"""Data folders for benchmarks: sites with collectors and commands."""

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path

from restante.commands.audit.audit_trail import KEY_PURPOSE, AuditTrail
from restante.commands.sites import collectors, sites
from restante.commands.sites.collectors import SecretBox
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from restante.identity.master_key import MasterKeySource
from restante.server.data_folder import DataFolder

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class EdgeData:
    """A data folder, and the token of one collector per site, in the order of the sites."""

    folder: DataFolder
    tokens: list[str]


def prepare(path: Path, site_count: int, commands_per_site: int) -> EdgeData:
    folder = DataFolder(path)
    folder.create()
    engine = SqliteEngine(folder.database_path)
    migrate(engine)
    master_key = MasterKeySource(folder.master_key_path, None).make()
    database = Database(engine)
    try:
        tokens = database.write_now(
            _add_sites, AuditTrail(master_key.derive_key(KEY_PURPOSE)), SecretBox(master_key), site_count
        )
    finally:
        database.close()
    add_commands(folder, site_count, commands_per_site)
    return EdgeData(folder, tokens)


def _add_sites(conn: Connection, trail: AuditTrail, box: SecretBox, count: int) -> list[str]:
    tokens = []
    for number in range(count):
        site = sites.add(conn, trail, f"site {number}", "bench")
        tokens.append(collectors.create(conn, trail, box, site.id, None, "collector", "bench").token)
    return tokens


def add_commands(folder: DataFolder, site_count: int, commands_per_site: int) -> None:
    """Insert so many pending commands for each site, directly and without durability."""
    now = int(time.time() * 1000)
    conn = sqlite3.connect(folder.database_path)
    conn.execute("PRAGMA synchronous = OFF")
    with conn:
        first = conn.execute("SELECT COALESCE(MAX(id), 0) FROM miner_commands").fetchone()[0]
        conn.executemany(
            "INSERT INTO miner_commands (command_id, site_id, zone_id, miner_id, command_type, params, rank, status,"
            " expires_at, created_at, created_by, max_retries, retry_backoff_sec)"
            " VALUES (?, ?, ?, ?, 'SET_FAN', '{\"speed\":80}', ?, 'pending', ?, ?, 'bench', 3, 30)",
            (
                (
                    f"cmd_{first + number}",
                    number % site_count + 1,
                    number % site_count + 1,
                    # A miner of its own: a miner gets one command at a time.
                    first + number + 1,
                    now + number,
                    now + DAY_MS,
                    now,
                )
                for number in range(site_count * commands_per_site)
            ),
        )
    conn.close()
