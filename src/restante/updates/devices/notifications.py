"""Reports of devices about themselves: the agent's version and its last events, and what became of configs and signals.

The agent defines its events; they may have any shape. They are stored for people to read, newest last, as many complete
ones as fit: the last report on the device's row, the last few, shortened, in a table. The version is the newest string
in them under one of the names that agents use.

An event says that something was applied or failed by its `type`, which ends in `applied` or `failed`, or by its
`status`. A whole number `version` (or `config_version`) names a version of the install config, and a `cursor` a signal
of the device's log. `error`, `message` or `reason` say why it failed. Other events have no further effect.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.core.cursor import Position, parse_cursor
from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.connection import Connection, Row
from restante.database.paging import Page, PageRequest, page_of
from restante.database.queries import queries_beside
from restante.delivery.log import log
from restante.updates import signal_types
from restante.updates.install import install_configs

SQL = queries_beside(__file__)

SCHEMA = "certctrl.device.notify.v1"
EVENTS_BYTES_MAX = 16 * 1024
VERSION_CHARACTERS_MAX = 128
LISTED_BYTES_MAX = 2048
REPORTS_MAX = 20
OUTCOMES_MAX = 100
SIGNALS_SEARCHED = 20
FAILURE_CHARACTERS_MAX = 255
_APPLIED = ("applied", "ok", "success", "succeeded", "installed", "done")
_FAILED = ("failed", "failure", "error")
VERSION_NAMES = ("agent_version", "version", "app_version")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a device made of a version of its install config, or of a signal. `failure` None: it was applied."""

    config_version: int | None
    position: Position | None
    failure: str | None


class Report(msgspec.Struct, frozen=True):
    """A report of a device's agent; `at` is UTC. `events`: the newest ones, as the agent sent them."""

    n: int
    at: Timestamp
    events: msgspec.Raw


def report(
    conn: Connection, device_id: int, agent_version: str | None, events_json: str, reported: Sequence[Outcome] = ()
) -> None:
    """Store the report; a report without a version keeps the known one."""
    conn.run(
        SQL.report,
        device_id=device_id,
        agent_version=agent_version,
        agent_events=events_json,
        now_ms=conn.now_ms,
    )
    short = bounded_events(msgspec.json.decode(events_json), LISTED_BYTES_MAX)
    conn.run(SQL.add_report, device_id=device_id, events=short, now_ms=conn.now_ms)
    conn.run(SQL.trim_reports, device_id=device_id, keep=REPORTS_MAX)
    for outcome in reported:
        if outcome.config_version is not None:
            install_configs.mark_outcome(conn, device_id, outcome.config_version, outcome.failure)
        position = outcome.position or _signal_of_version(conn, device_id, outcome.config_version)
        if position is not None:
            _store_signal_outcome(conn, device_id, position, outcome.failure)


def list_page(conn: Connection, device_id: int, page: PageRequest) -> Page[Report]:
    """The last reports of the device, newest first."""
    before = page.after or INT64_MAX
    rows = conn.all(SQL.reports, device_id=device_id, before=before, limit=page.limit + 1)
    return page_of(rows, page, "n", _view)


def outcomes(events: list[Any]) -> list[Outcome]:
    """What the newest events say about configs and signals, oldest first."""
    found = [_outcome(event) for event in events[-OUTCOMES_MAX:] if isinstance(event, dict)]
    return [outcome for outcome in found if outcome is not None]


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


def bounded_events(events: list[Any], bytes_max: int = EVENTS_BYTES_MAX) -> str:
    """The newest events that fit, in order, as a JSON list."""
    kept: list[bytes] = []
    size = len(b"[]")
    for event in reversed(events):
        encoded = msgspec.json.encode(event)
        size += len(encoded) + 1
        if size > bytes_max:
            break
        kept.append(encoded)
    return f"[{b','.join(reversed(kept)).decode()}]"


def _named_version(fields: dict[str, Any]) -> str | None:
    values = (fields.get(name) for name in VERSION_NAMES)
    strings = (value for value in values if isinstance(value, str) and value.isprintable())
    return next((value for value in strings if 1 <= len(value) <= VERSION_CHARACTERS_MAX), None)


def _outcome(event: dict[str, Any]) -> Outcome | None:
    is_applied = _is_applied(event)
    if is_applied is None:
        return None
    nested = [value for value in event.values() if isinstance(value, dict)]
    version = next(filter(None, map(_config_version, (event, *nested))), None)
    position = next(filter(None, map(_position, (event, *nested))), None)
    if version is None and position is None:
        return None
    return Outcome(version, position, None if is_applied else _failure(event))


def _is_applied(event: dict[str, Any]) -> bool | None:
    """Whether the event says that something was applied or that it failed; None if it says neither."""
    words = [event.get("status"), event.get("result"), event.get("outcome"), event.get("type")]
    for word in words:
        last = word.rpartition(".")[2].lower() if isinstance(word, str) else ""
        if last in _FAILED:
            return False
        if last in _APPLIED:
            return True
    return None


def _config_version(fields: dict[str, Any]) -> int | None:
    values = (fields.get(name) for name in ("config_version", "version"))
    return next((value for value in values if type(value) is int and 0 < value <= INT64_MAX), None)


def _position(fields: dict[str, Any]) -> Position | None:
    cursor = fields.get("cursor")
    try:
        return parse_cursor(cursor) if isinstance(cursor, str) else None
    except BadInput:
        return None


def _failure(event: dict[str, Any]) -> str:
    """Why it failed, as the device says, without characters that a terminal or a database does not take."""
    texts = (event.get(name) for name in ("error", "message", "reason", "detail"))
    said = next((text for text in texts if isinstance(text, str) and text), "the device gave no reason")
    return "".join(character if character.isprintable() else " " for character in said)[:FAILURE_CHARACTERS_MAX]


def _signal_of_version(conn: Connection, device_id: int, version: int | None) -> Position | None:
    """The position of the signal that announced this version of the install config, if it is one of the last ones."""
    rows = conn.all(SQL.last_signals, device_id=device_id, type=signal_types.INSTALL_UPDATED, limit=SIGNALS_SEARCHED)
    for row in rows:
        if msgspec.json.decode(row["ref"]).get("version") == version:
            return Position(row["ms"], row["n"])
    return None


def _store_signal_outcome(conn: Connection, device_id: int, position: Position, failure: str | None) -> None:
    """Store the outcome of a signal that the log still holds."""
    head = log.read_head(conn, device_id)
    if head.trimmed.n < position.n <= head.newest.n:
        conn.run(
            SQL.set_outcome,
            device_id=device_id,
            n=position.n,
            outcome="applied" if failure is None else "failed",
            detail=failure,
            now_ms=conn.now_ms,
        )
        conn.run(SQL.trim_outcomes, device_id=device_id, n=head.trimmed.n)


def _view(row: Row) -> Report:
    return Report(row["n"], iso_precise(row["at"]), msgspec.Raw(row["events"].encode()))
