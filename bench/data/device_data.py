"""Data folders for benchmarks: devices with access tokens, and optionally signals in their logs."""

import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path

from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from restante.identity.master_key import MasterKeySource
from restante.identity.signing_keys import SigningKeys
from restante.server.data_folder import DataFolder
from tests.defaults import new_device_tokens

DAY_SECONDS = 86_400


def prepare(path: Path, devices: int) -> DataFolder:
    """Create a data folder with one user and so many devices."""
    folder = DataFolder(path)
    folder.create()
    migrate(SqliteEngine(folder.database_path))
    MasterKeySource(folder.master_key_path, None).make()
    now = int(time.time() * 1000)
    conn = sqlite3.connect(folder.database_path)
    with conn:
        conn.execute(
            "INSERT INTO users (id, email, password_hash, role, created_at)"
            " VALUES (1, 'bench@example.com', '', 'admin', ?)",
            (now,),
        )
        conn.executemany(
            "INSERT INTO user_devices (id, user_id, device_public_id, dev_pk, device_keyfp, created_at, updated_at)"
            " VALUES (?, 1, ?, zeroblob(32), zeroblob(32), ?, ?)",
            ((number, f"device-{number}", now, now) for number in range(1, devices + 1)),
        )
    conn.close()
    return folder


async def mint(folder: DataFolder, devices: Iterable[int]) -> list[str]:
    """A valid access token for each device."""
    database = Database(SqliteEngine(folder.database_path))
    try:
        keys = SigningKeys(database, MasterKeySource(folder.master_key_path, None).make())
        tokens = new_device_tokens(database, keys, access_token_seconds=DAY_SECONDS)
        await tokens.start()
        return [tokens.mint(1, device) for device in devices]
    finally:
        database.close()


def fill_log(path: Path, device_ids: Iterable[int], signals: int) -> None:
    """Insert so many signals into the log of each device, directly and without durability."""
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA synchronous = OFF")
    now = int(time.time() * 1000) - DAY_SECONDS * 1000
    ref = '{"config_id":1234,"version":6,"installs_hash_b64":"W7u5W7u5W7u5W7u5W7u5W7u5W7u5W7u5W7u5W7u5W7s="}'
    with conn:
        for device_id in device_ids:
            conn.executemany(
                "INSERT INTO device_update_log VALUES (?, ?, ?, 'install.updated', ?, ?)",
                ((device_id, now + n, n, now + n, ref) for n in range(1, signals + 1)),
            )
            conn.execute(
                "INSERT INTO device_update_heads VALUES (?, ?, ?, 0, 0, ?)",
                (device_id, now + signals, signals, now + 1),
            )
    conn.close()
