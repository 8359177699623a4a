"""The stored state of a collector: executed commands, seen nonces, and reports that wait to be sent.

    poll ─▶ accept (nonce new?) ─▶ start ─▶ the program executes ─▶ finish: result and ACK in one transaction ─▶ spool
                                     │ crash here: the outcome is unknown, and the command is not executed again

Invariants:
- A nonce is accepted once.
- A command is `started` on disk before it is executed, and its ACK is in the spool as soon as it is `finished`.
- Telemetry is dropped before safety events and ACKs when the spool is full.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from restante_client.collector.models import Command
from restante_client.errors import StateError
from restante_client.state import StateFolder

ACK = "ack"
SAFETY = "safety"
TELEMETRY = "telemetry"
# In this order: a lost ACK costs a retry, a late measurement nothing.
KINDS = (ACK, SAFETY, TELEMETRY)
REMEMBERED_SECONDS = 40 * 86_400

_TABLES = (
    "CREATE TABLE IF NOT EXISTS commands (command_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, state TEXT NOT NULL,"
    " result TEXT, seen_at REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS nonces (nonce TEXT PRIMARY KEY, seen_at REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS spool (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, command_id TEXT,"
    " body BLOB NOT NULL, size INTEGER NOT NULL, added_at REAL NOT NULL)",
    "CREATE INDEX IF NOT EXISTS spool_by_kind ON spool (kind, id)",
)


@dataclass(frozen=True)
class Execution:
    """An earlier execution of a command. `result` is the body of its ACK, or None if the program ended meanwhile."""

    attempt: int
    result: Optional[dict[str, Any]]


@dataclass(frozen=True)
class Report:
    """Something that waits in the spool."""

    id: int
    kind: str
    command_id: Optional[str]
    body: dict[str, Any]


class CollectorStore:
    def __init__(
        self, folder: Path, *, spool_bytes_max: int, spool_age_seconds_max: float, key: bytes | None = None
    ) -> None:
        self.state = StateFolder(folder)
        self._spool_bytes_max = spool_bytes_max
        self._spool_age_seconds_max = spool_age_seconds_max
        self._box = None if key is None else SecretBox(key)
        for table in _TABLES:
            self.state.database.execute(table)

    # Commands

    def accept(self, command: Command) -> bool:
        """Record the nonce of a dispatch. False if it was seen before, or if its attempt is not new: a replay."""
        with self.state.transaction() as database:
            known = database.execute(
                "SELECT attempt FROM commands WHERE command_id = ?", (command.command_id,)
            ).fetchone()
            if known is not None and known[0] >= command.attempt:
                return False
            added = database.execute(
                "INSERT OR IGNORE INTO nonces (nonce, seen_at) VALUES (?, ?)", (command.nonce, time.time())
            )
            return added.rowcount == 1

    def earlier_execution(self, command_id: str) -> Optional[Execution]:
        found = self.state.rows("SELECT attempt, result FROM commands WHERE command_id = ?", command_id)
        if not found:
            return None
        attempt, result = found[0]
        return Execution(attempt, None if result is None else json.loads(result))

    def start(self, command: Command) -> None:
        with self.state.transaction() as database:
            database.execute(
                "INSERT INTO commands (command_id, attempt, state, seen_at) VALUES (?, ?, 'started', ?)"
                " ON CONFLICT (command_id) DO UPDATE SET attempt = excluded.attempt, state = 'started', result = NULL,"
                " seen_at = excluded.seen_at",
                (command.command_id, command.attempt, time.time()),
            )

    def finish(self, command: Command, ack: dict[str, Any], *, is_executed: bool) -> None:
        """Put the ACK into the spool, and with it the result of the execution."""
        with self.state.transaction() as database:
            if is_executed:
                database.execute(
                    "UPDATE commands SET state = 'finished', result = ? WHERE command_id = ?",
                    (json.dumps(ack), command.command_id),
                )
            self._put(ACK, ack, command.command_id)

    def executions_by_state(self) -> dict[str, int]:
        """The number of remembered commands that were `started`, and have no result yet, and that are `finished`."""
        return dict(self.state.rows("SELECT state, count(*) FROM commands GROUP BY state"))

    def forget_old(self) -> None:
        """Delete commands and nonces that no server dispatches any more."""
        before = time.time() - REMEMBERED_SECONDS
        with self.state.transaction() as database:
            database.execute("DELETE FROM nonces WHERE seen_at < ?", (before,))
            database.execute("DELETE FROM commands WHERE seen_at < ?", (before,))

    # Spool

    def add(self, kind: str, body: dict[str, Any]) -> int:
        """Put a report into the spool. Return how many reports were dropped to make room."""
        with self.state.transaction():
            self._put(kind, body)
            return self._make_room()

    def oldest(self, kind: str) -> Optional[Report]:
        found = self.state.rows("SELECT id, kind, command_id, body FROM spool WHERE kind = ? ORDER BY id LIMIT 1", kind)
        if not found:
            return None
        number, kind, command_id, body = found[0]
        return Report(number, kind, command_id, self._open(bytes(body)))

    def next_report(self) -> Optional[Report]:
        """The report to send next: an ACK before a safety event before telemetry, of each kind the oldest."""
        found = (self.oldest(kind) for kind in KINDS)
        return next((report for report in found if report is not None), None)

    def remove(self, report: Report) -> None:
        """Remove a report that the server has, or will never accept."""
        with self.state.transaction() as database:
            database.execute("DELETE FROM spool WHERE id = ?", (report.id,))

    def waiting(self) -> dict[str, int]:
        """The number of reports that wait, by kind."""
        rows = self.state.rows("SELECT kind, count(*) FROM spool GROUP BY kind")
        return {**dict.fromkeys(KINDS, 0), **dict(rows)}

    def _put(self, kind: str, body: dict[str, Any], command_id: str | None = None) -> None:
        stored = json.dumps(body, ensure_ascii=False).encode()
        if self._box is not None:
            stored = bytes(self._box.encrypt(stored))
        self.state.database.execute(
            "INSERT INTO spool (kind, command_id, body, size, added_at) VALUES (?, ?, ?, ?, ?)",
            (kind, command_id, stored, len(stored), time.time()),
        )

    def _open(self, stored: bytes) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(stored if self._box is None else self._box.decrypt(stored))
        except (CryptoError, ValueError) as error:
            raise StateError(f"the spool in {self.state.folder} cannot be read: is the key the right one?") from error
        return found

    def _make_room(self) -> int:
        """Drop what is too old, then the oldest telemetry, then the oldest safety events. ACKs are never dropped."""
        database = self.state.database
        dropped = database.execute(
            "DELETE FROM spool WHERE kind = ? AND added_at < ?", (TELEMETRY, time.time() - self._spool_age_seconds_max)
        ).rowcount
        for kind in (TELEMETRY, SAFETY):
            while True:
                (size,) = database.execute("SELECT coalesce(sum(size), 0) FROM spool").fetchone()
                if size <= self._spool_bytes_max:
                    return int(dropped)
                removed = database.execute(
                    "DELETE FROM spool WHERE id IN (SELECT id FROM spool WHERE kind = ? ORDER BY id LIMIT 16)", (kind,)
                ).rowcount
                if removed == 0:
                    break
                dropped += removed
        return int(dropped)

    def close(self) -> None:
        self.state.close()
