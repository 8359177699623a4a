"""Adds devices and signals, and reads what was delivered."""

import json
from typing import Any

from restante.core.cursor import START
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log import log
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import OutboxRow

_ADD_USER = Query(
    "add_user",
    "INSERT INTO users (email, password_hash, role, created_at) VALUES ('ada@example.com', '', 'viewer', 0) "
    "ON CONFLICT (email) DO NOTHING",
)
_ADD_DEVICE = Query(
    "add_device",
    "INSERT INTO user_devices (user_id, device_public_id, dev_pk, device_keyfp, created_at, updated_at) "
    "SELECT id, (SELECT COUNT(*) FROM user_devices), x'00', x'00', 0, 0 FROM users RETURNING id",
)


def add_device(conn: Connection) -> int:
    conn.run(_ADD_USER)
    row = conn.one(_ADD_DEVICE)
    assert row is not None
    return int(row["id"])


def signal(about: Any = 0, type: str = "x", ts_ms: int = 1) -> Signal:
    return Signal(type, ts_ms, {"about": about})


def enqueue(database: Database, device_id: int, *abouts: Any) -> None:
    """Enqueue one signal for each value of `about`."""
    for about in abouts:
        database.write_now(outbox.enqueue, device_id, signal(about))


def published(database: Database, device_id: int) -> list[Any]:
    """The `about` values of the device's signals, in the order of the log."""
    log_slice = database.read_now(log.read, device_id, START, 1000)
    return [json.loads(entry.json)["ref"]["about"] for entry in log_slice.entries]


def row(database: Database, row_id: int) -> OutboxRow:
    found = database.read_now(outbox.get_row, row_id)
    assert found is not None
    return found
