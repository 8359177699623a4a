"""Sealing secret parameters at the start. The whole pass: `tests/attacks/test_secret_parameters_are_read.py`."""

from contextlib import closing
from pathlib import Path

import pytest
import structlog

from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.database.sqlite import SqliteConnection, SqliteEngine
from restante.identity.master_key import MasterKey
from restante.server import app
from restante.server.app import seal_stored_params
from tests.databases import write_migrated


class FullDisk(SqliteEngine):
    def connect(self, *, writable: bool) -> SqliteConnection:
        raise DatabaseUnavailable("database or disk is full")


def test_disk_without_room_for_compacting_leaves_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_migrated(tmp_path / "restante.db")
    monkeypatch.setattr(app, "seal_stored", lambda _database, _box: 3)
    with closing(Database(SqliteEngine(path))) as database, structlog.testing.capture_logs() as logs:
        seal_stored_params(FullDisk(path), database, MasterKey(bytes(32)))
    assert [(entry["log_level"], entry.get("rows")) for entry in logs] == [("info", 3), ("warning", None)]
