"""The stored state of the agent beside tokens and cursor: tasks, own signals, configs, authorities, runs, reports.

Everything is in the `state.db` of the state folder, so that a result, the end of its task and its report are one
transaction.

    tasks        what to do, and when: (kind, id), for example ("certificate", 7)
    own_signals  signals for the owner's handlers, in order
    run          the run that changes files now; journal: its changes, each with a backup, oldest first
    authorities  trusted authorities, with the PEM that is in the trust stores
    reports      results that the server has not received yet
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import msgspec

from restante_client.device.models import InstallConfig, Signal
from restante_client.state import StateFolder

REPORTS_MAX = 200
_TABLES = """
CREATE TABLE IF NOT EXISTS tasks (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       TEXT NOT NULL,
    id         INTEGER NOT NULL,
    is_removal INTEGER NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    due_at     REAL NOT NULL,
    UNIQUE (kind, id)
);
CREATE TABLE IF NOT EXISTS own_signals (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    type     TEXT NOT NULL,
    ts_ms    INTEGER NOT NULL,
    body     BLOB NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at   REAL NOT NULL,
    UNIQUE (type, ts_ms)
);
CREATE TABLE IF NOT EXISTS run (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS journal (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    existed INTEGER NOT NULL,
    mode    INTEGER NOT NULL,
    uid     INTEGER NOT NULL,
    gid     INTEGER NOT NULL,
    is_link INTEGER NOT NULL,
    backup  TEXT
);
CREATE TABLE IF NOT EXISTS authorities (
    ca_id       INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    serial      TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    pem         BLOB NOT NULL,
    imported_at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS reports (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Task:
    kind: str
    id: int
    is_removal: bool
    attempts: int
    due_at: float


@dataclass(frozen=True)
class OwnSignal:
    number: int
    signal: Signal
    attempts: int
    due_at: float


@dataclass(frozen=True)
class Authority:
    ca_id: int
    name: str
    serial: str
    fingerprint: str
    pem: bytes


@dataclass(frozen=True)
class Change:
    """One line of the journal. `backup` is a file in the folder of the run's backups."""

    number: int
    kind: str
    name: str
    existed: bool
    mode: int
    uid: int
    gid: int
    is_link: bool
    backup: Optional[str]


class AgentStore:
    def __init__(self, state: StateFolder) -> None:
        self.state = state
        for table in _TABLES.split(";"):
            state.database.execute(table)

    # Tasks

    def add_task(self, kind: str, id: int = 0, *, is_removal: bool = False) -> None:
        """Add a task, or make a known one due. A removal replaces the opposite task, and the other way round."""
        with self.state.transaction():
            self.put_task(kind, id, is_removal=is_removal)

    def put_task(self, kind: str, id: int = 0, *, is_removal: bool = False) -> None:
        """Add a task within a transaction."""
        self.state.database.execute(
            "INSERT INTO tasks (kind, id, is_removal, due_at) VALUES (?, ?, ?, 0)"
            " ON CONFLICT (kind, id) DO UPDATE SET due_at = 0, attempts = 0, is_removal = excluded.is_removal",
            (kind, id, is_removal),
        )

    def make_tasks_due(self) -> None:
        """At a start: nothing waits for its next attempt."""
        with self.state.transaction() as database:
            database.execute("UPDATE tasks SET due_at = 0")
            database.execute("UPDATE own_signals SET due_at = 0")

    def tasks(self) -> list[Task]:
        rows = self.state.rows("SELECT kind, id, is_removal, attempts, due_at FROM tasks ORDER BY number")
        return [Task(row[0], row[1], bool(row[2]), *row[3:]) for row in rows]

    def delay_task(self, task: Task, seconds: float) -> None:
        with self.state.transaction() as database:
            database.execute(
                "UPDATE tasks SET attempts = attempts + 1, due_at = ? WHERE kind = ? AND id = ?",
                (time.time() + seconds, task.kind, task.id),
            )

    def end_task(
        self,
        task: Task,
        *reports: dict[str, Any],
        entries: Optional[dict[str, Any]] = None,
        next_tasks: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Store the result of a task: reports, named entries, tasks that follow, the end of the run that it made."""
        with self.state.transaction() as database:
            database.execute("DELETE FROM tasks WHERE kind = ? AND id = ?", (task.kind, task.id))
            for name, value in (entries or {}).items():
                self.put(name, value)
            for kind, id in next_tasks:
                self.put_task(kind, id)
            self.put_reports(*reports)
            database.execute("DELETE FROM journal")
            database.execute("DELETE FROM run")

    # Own signals

    def add_own_signal(self, signal: Signal) -> None:
        with self.state.transaction() as database:
            database.execute(
                "INSERT OR IGNORE INTO own_signals (type, ts_ms, body, due_at) VALUES (?, ?, ?, 0)",
                (signal.type, signal.ts_ms, msgspec.json.encode(signal)),
            )

    def next_own_signal(self) -> Optional[OwnSignal]:
        """The oldest signal. Later ones wait for it."""
        rows = self.state.rows("SELECT number, body, attempts, due_at FROM own_signals ORDER BY number LIMIT 1")
        return OwnSignal(rows[0][0], msgspec.json.decode(rows[0][1], type=Signal), *rows[0][2:]) if rows else None

    def delay_own_signal(self, found: OwnSignal, seconds: float) -> None:
        with self.state.transaction() as database:
            database.execute(
                "UPDATE own_signals SET attempts = attempts + 1, due_at = ? WHERE number = ?",
                (time.time() + seconds, found.number),
            )

    def end_own_signal(self, found: OwnSignal, *reports: dict[str, Any]) -> None:
        with self.state.transaction() as database:
            database.execute("DELETE FROM own_signals WHERE number = ?", (found.number,))
            self.put_reports(*reports)

    def count_own_signals(self) -> int:
        return int(self.state.rows("SELECT COUNT(*) FROM own_signals")[0][0])

    # Entries

    def get(self, name: str) -> Any:
        found = self.state.read(f"agent.{name}")
        return None if found is None else json.loads(found)

    def put(self, name: str, value: Any) -> None:
        """Set an entry within a transaction."""
        self.state.put(f"agent.{name}", msgspec.json.encode(value))

    def save(self, name: str, value: Any) -> None:
        with self.state.transaction():
            self.put(name, value)

    def config(self, name: str) -> Optional[InstallConfig]:
        """A stored config: `wanted` (fetched last) or `applied`."""
        found = self.state.read(f"agent.{name}")
        return None if found is None else msgspec.json.decode(found, type=InstallConfig)

    # Runs

    def begin_run(self, name: str) -> int:
        with self.state.transaction() as database:
            added = database.execute("INSERT INTO run (name) VALUES (?)", (name,))
            return int(added.lastrowid or 0)

    def interrupted_run(self) -> Optional[tuple[int, str]]:
        rows = self.state.rows("SELECT number, name FROM run")
        return (rows[0][0], rows[0][1]) if rows else None

    def end_run(self) -> None:
        """Forget the run after it was rolled back; its task stays."""
        with self.state.transaction() as database:
            database.execute("DELETE FROM journal")
            database.execute("DELETE FROM run")

    def add_change(self, change: Change) -> None:
        with self.state.transaction() as database:
            database.execute(
                "INSERT INTO journal (kind, name, existed, mode, uid, gid, is_link, backup)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    change.kind,
                    change.name,
                    change.existed,
                    change.mode,
                    change.uid,
                    change.gid,
                    change.is_link,
                    change.backup,
                ),
            )

    def changes(self) -> list[Change]:
        rows = self.state.rows(
            "SELECT number, kind, name, existed, mode, uid, gid, is_link, backup FROM journal ORDER BY number"
        )
        return [
            Change(number, kind, name, bool(existed), mode, uid, gid, bool(is_link), backup)
            for number, kind, name, existed, mode, uid, gid, is_link, backup in rows
        ]

    # Authorities

    def authority(self, ca_id: int) -> Optional[Authority]:
        return next((found for found in self.authorities() if found.ca_id == ca_id), None)

    def authorities(self) -> list[Authority]:
        rows = self.state.rows("SELECT ca_id, name, serial, fingerprint, pem FROM authorities ORDER BY ca_id")
        return [Authority(*row) for row in rows]

    def save_authority(self, authority: Authority) -> None:
        with self.state.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO authorities (ca_id, name, serial, fingerprint, pem, imported_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (
                    authority.ca_id,
                    authority.name,
                    authority.serial,
                    authority.fingerprint,
                    authority.pem,
                    time.time(),
                ),
            )

    def remove_authority(self, ca_id: int) -> None:
        with self.state.transaction() as database:
            database.execute("DELETE FROM authorities WHERE ca_id = ?", (ca_id,))

    # Reports

    def put_reports(self, *reports: dict[str, Any]) -> None:
        """Add reports within a transaction. The oldest are dropped if the server was away for too long."""
        for report in reports:
            self.state.database.execute("INSERT INTO reports (body) VALUES (?)", (json.dumps(report),))
        self.state.database.execute(
            "DELETE FROM reports WHERE number <= (SELECT MAX(number) FROM reports) - ?", (REPORTS_MAX,)
        )

    def add_reports(self, *reports: dict[str, Any]) -> None:
        with self.state.transaction():
            self.put_reports(*reports)

    def reports(self) -> list[tuple[int, dict[str, Any]]]:
        rows = self.state.rows("SELECT number, body FROM reports ORDER BY number")
        return [(row[0], json.loads(row[1])) for row in rows]

    def remove_reports(self, number_max: int) -> None:
        with self.state.transaction() as database:
            database.execute("DELETE FROM reports WHERE number <= ?", (number_max,))
