import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from restante.core.errors import BadInput
from restante.delivery.log.signals import Signal
from restante.outbox import enqueue, schema
from tests.delivery.external_databases import create_schema

GOOD = {"type": "tariff.changed", "ref": {"tariff_id": 7}}


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as conn:
        create_schema(conn, "sqlite")
        yield conn


def rows(conn: sqlite3.Connection) -> list[tuple[Any, ...]]:
    return conn.execute("SELECT device_id, event_kind, payload, status FROM device_update_outbox").fetchall()


def test_enqueue_adds_one_row_in_the_open_transaction(conn: sqlite3.Connection) -> None:
    enqueue(conn, 5, GOOD)
    assert conn.in_transaction
    ((device_id, kind, payload, status),) = rows(conn)
    assert (device_id, kind, status) == (5, "tariff.changed", "PENDING")
    signal = json.loads(payload)
    assert signal.pop("ts_ms") > 1_700_000_000_000
    assert signal == GOOD
    conn.rollback()
    assert rows(conn) == []


def test_timestamp_and_signal_object_are_accepted(conn: sqlite3.Connection) -> None:
    enqueue(conn, 5, {**GOOD, "ts_ms": 17})
    enqueue(conn, 5, Signal("x", 18, {}))
    assert [json.loads(row[2])["ts_ms"] for row in rows(conn)] == [17, 18]


@pytest.mark.parametrize(
    ("signal", "field"),
    [
        ({}, "type"),
        ({"type": ""}, "type"),
        ({"type": "x" * 129}, "type"),
        ({"type": "x", "ref": []}, "ref"),
        ({"type": "x", "ref": {"much": "x" * 4097}}, "ref"),
        ({"type": "x", "ts_ms": "now"}, "ts_ms"),
        ({"type": "x", "ts_ms": -1}, "ts_ms"),
        ({"type": "x", "ts_ms": True}, "ts_ms"),
        ({"type": "x", "rfe": {}}, "rfe"),
    ],
)
def test_invalid_signal_is_refused_and_not_written(
    conn: sqlite3.Connection, signal: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput) as refused:
        enqueue(conn, 5, signal)
    assert refused.value.field == field
    assert rows(conn) == []


@pytest.mark.parametrize("device_id", [0, -1, 2**63, True, "5"])
def test_invalid_device_id_is_refused(conn: sqlite3.Connection, device_id: Any) -> None:
    with pytest.raises(BadInput, match="device_id"):
        enqueue(conn, device_id, GOOD)


class Wrapped:
    """A connection that hides its driver, like those of pools and frameworks."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def cursor(self) -> sqlite3.Cursor:
        return self._conn.cursor()


class DriverSubclass(sqlite3.Connection):
    pass


def test_wrapped_connection_needs_a_paramstyle(conn: sqlite3.Connection) -> None:
    with pytest.raises(BadInput, match="paramstyle"):
        enqueue(Wrapped(conn), 5, GOOD)
    enqueue(Wrapped(conn), 5, GOOD, paramstyle="qmark")
    enqueue(Wrapped(conn), 6, GOOD, paramstyle="named")
    enqueue(Wrapped(conn), 7, GOOD, paramstyle="numeric")
    assert [row[0] for row in rows(conn)] == [5, 6, 7]


def test_subclass_of_a_driver_connection_is_recognised() -> None:
    with closing(sqlite3.connect(":memory:", factory=DriverSubclass)) as conn:
        create_schema(conn, "sqlite")
        enqueue(conn, 5, GOOD)
        assert len(rows(conn)) == 1


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "sqlite"])
def test_every_kind_has_a_schema(kind: Any) -> None:
    assert "CREATE TABLE device_update_outbox" in schema(kind)


@pytest.mark.parametrize("kind", ["oracle", ""])
def test_unknown_kind_is_refused(kind: Any) -> None:
    with pytest.raises(BadInput, match="kind"):
        schema(kind)


def test_import_loads_no_server_and_no_driver() -> None:
    program = (
        "import sys, restante.outbox;"
        "print([name for name in ('uvicorn', 'starlette', 'psycopg', 'pymysql', 'redis', 'asyncio', 'structlog')"
        " if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
