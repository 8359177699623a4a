"""The outbox in an application's own database: a change and its signal are committed together.

    from restante.outbox import enqueue

    with connection:                                   # psycopg, PyMySQL, mysqlclient, sqlite3 …
        connection.execute("UPDATE tariffs SET …")
        enqueue(connection, device_id, {"type": "tariff.changed", "ref": {"tariff_id": 7}})

`enqueue` runs one INSERT on the given connection, in the transaction that is open there. It neither opens nor ends a
transaction, and contacts no server. Create the table with `schema(...)` or `restante outbox schema`.
"""

import sys
import time
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Literal, Protocol, get_args

from restante.core.errors import BadInput
from restante.delivery.log.signals import Signal, check_signal

ID_MAX = 2**63 - 1

DatabaseKind = Literal["postgresql", "mysql", "sqlite"]
Paramstyle = Literal["qmark", "numeric", "named", "format", "pyformat"]

# One complete statement for each parameter style: no statement is assembled from parts.
_INSERT: dict[Paramstyle, str] = {
    "qmark": "INSERT INTO device_update_outbox (device_id, event_kind, payload) VALUES (?, ?, ?)",
    "numeric": "INSERT INTO device_update_outbox (device_id, event_kind, payload) VALUES (:1, :2, :3)",
    "named": "INSERT INTO device_update_outbox (device_id, event_kind, payload) VALUES (:device, :kind, :payload)",
    "format": "INSERT INTO device_update_outbox (device_id, event_kind, payload) VALUES (%s, %s, %s)",
    "pyformat": "INSERT INTO device_update_outbox (device_id, event_kind, payload)"
    " VALUES (%(device)s, %(kind)s, %(payload)s)",
}


class DbapiConnection(Protocol):
    """A PEP 249 connection."""

    def cursor(self) -> Any: ...


def enqueue(
    connection: DbapiConnection,
    device_id: int,
    signal: Signal | Mapping[str, Any],
    *,
    paramstyle: Paramstyle | None = None,
) -> None:
    """Add a signal for a device to the outbox, in the transaction that is open on the connection.

    The signal has `type`, `ref` and, if it is not of now, `ts_ms`. BadInput, with nothing written, if it is not a valid
    signal. `paramstyle` is needed only for a connection that is a wrapper and hides its driver.
    """
    if isinstance(device_id, bool) or not isinstance(device_id, int) or not 1 <= device_id <= ID_MAX:
        raise BadInput("device_id", "a device's id")
    checked = _check(signal)
    style = paramstyle or _paramstyle(connection)
    row = {"device": device_id, "kind": checked.type, "payload": checked.payload()}
    cursor = connection.cursor()
    try:
        cursor.execute(_INSERT[style], row if style in ("named", "pyformat") else tuple(row.values()))
    finally:
        cursor.close()


def schema(kind: DatabaseKind, *, notify: bool = False) -> str:
    """The statements that create the outbox table in a database of this kind.

    With `notify`, on PostgreSQL, also a trigger that notifies the server of every commit to it.
    """
    if kind not in get_args(DatabaseKind):
        raise BadInput("kind", f"one of {', '.join(get_args(DatabaseKind))}")
    if notify and kind != "postgresql":
        raise BadInput("notify", "PostgreSQL: no other database can notify the server")
    names = [f"outbox_{kind}.sql", *(["outbox_notify_postgresql.sql"] if notify else [])]
    return "".join((files("restante") / "schemas" / name).read_text(encoding="utf-8") for name in names)


def _check(signal: Signal | Mapping[str, Any]) -> Signal:
    if isinstance(signal, Signal):
        return check_signal(signal.type, signal.ts_ms, signal.ref)
    unknown = sorted(set(signal) - {"type", "ts_ms", "ref"})
    if unknown:
        raise BadInput(str(unknown[0]), "only type, ref and ts_ms")
    type_, ref = signal.get("type"), signal.get("ref", {})
    ts_ms = signal.get("ts_ms", time.time_ns() // 1_000_000)
    if not isinstance(type_, str):
        raise BadInput("type", "a text")
    if isinstance(ts_ms, bool) or not isinstance(ts_ms, int):
        raise BadInput("ts_ms", "milliseconds since the epoch")
    if not isinstance(ref, dict):
        raise BadInput("ref", "an object")
    return check_signal(type_, ts_ms, ref)


def _paramstyle(connection: DbapiConnection) -> Paramstyle:
    """The parameter style of the connection's driver, as its module declares it (PEP 249)."""
    for ancestor in type(connection).__mro__:
        module = sys.modules.get(ancestor.__module__.partition(".")[0])
        declared = getattr(module, "paramstyle", None)
        style = next((style for style in _INSERT if style == declared), None)
        if style is not None:
            return style
    raise BadInput("paramstyle", f"one of {', '.join(_INSERT)}: the connection's driver is not known")
