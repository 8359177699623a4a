"""Reports of devices about themselves: the agent's version and its last events, stored on the device's row.

The agent defines its events; they may have any shape. They are stored for people to read, newest last, as many complete
ones as fit. The version is the newest string in them under one of the names that agents use.
"""

from typing import Any

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

SCHEMA = "certctrl.device.notify.v1"
EVENTS_BYTES_MAX = 16 * 1024
VERSION_CHARACTERS_MAX = 128
VERSION_NAMES = ("agent_version", "version", "app_version")


def report(conn: Connection, device_id: int, agent_version: str | None, events_json: str) -> None:
    """Store the report; a report without a version keeps the known one."""
    conn.run(
        SQL.report,
        device_id=device_id,
        agent_version=agent_version,
        agent_events=events_json,
        now_ms=conn.now_ms,
    )


def reported_version(events: list[Any]) -> str | None:
    """The version from the newest event that has one, in the event itself or in an object inside it."""
    for event in reversed(events):
        if isinstance(event, dict):
            nested = [value for value in event.values() if isinstance(value, dict)]
            for fields in (event, *nested):
                version = _named_version(fields)
                if version:
                    return version
    return None


def bounded_events(events: list[Any]) -> str:
    """The newest events that fit into EVENTS_BYTES_MAX, in order, as a JSON list."""
    kept: list[bytes] = []
    size = len(b"[]")
    for event in reversed(events):
        encoded = msgspec.json.encode(event)
        size += len(encoded) + 1
        if size > EVENTS_BYTES_MAX:
            break
        kept.append(encoded)
    return f"[{b','.join(reversed(kept)).decode()}]"


def _named_version(fields: dict[str, Any]) -> str | None:
    values = (fields.get(name) for name in VERSION_NAMES)
    strings = (value for value in values if isinstance(value, str) and value.isprintable())
    return next((value for value in strings if 1 <= len(value) <= VERSION_CHARACTERS_MAX), None)
