"""The events that a receiver has stored, and which of them were acknowledged and handled.

    poll ─▶ verify ─▶ add (on disk) ─▶ acknowledged with the next poll
                        └─▶ handler, oldest first ─▶ handled

Invariants:
- An event is on disk before it is acknowledged.
- An event is handled only once per `jti` as far as the handler's own effects allow: it is marked after the handler.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from restante_client.state import StateFolder

REMEMBERED_SECONDS = 40 * 86_400

_TABLES = (
    "CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY, jti TEXT NOT NULL UNIQUE, token TEXT NOT NULL,"
    " stored_at REAL NOT NULL, is_acknowledged INTEGER NOT NULL DEFAULT 0, is_handled INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX IF NOT EXISTS events_to_acknowledge ON events (number) WHERE is_acknowledged = 0",
    "CREATE INDEX IF NOT EXISTS events_to_handle ON events (number) WHERE is_handled = 0",
)


@dataclass(frozen=True)
class StoredEvent:
    number: int
    jti: str
    token: str


class EventStore:
    def __init__(self, folder: Path) -> None:
        self.state = StateFolder(folder)
        for statement in _TABLES:
            self.state.database.execute(statement)

    def add(self, events: Sequence[tuple[str, str]]) -> None:
        """Store events by jti. One that is known already is to be acknowledged again: its last ACK was lost."""
        with self.state.transaction() as database:
            database.executemany(
                "INSERT INTO events (jti, token, stored_at) VALUES (?, ?, ?)"
                " ON CONFLICT (jti) DO UPDATE SET is_acknowledged = 0",
                [(jti, token, time.time()) for jti, token in events],
            )

    def to_acknowledge(self, limit: int) -> list[str]:
        rows = self.state.rows("SELECT jti FROM events WHERE is_acknowledged = 0 ORDER BY number LIMIT ?", limit)
        return [row[0] for row in rows]

    def set_acknowledged(self, jtis: Sequence[str]) -> None:
        with self.state.transaction() as database:
            database.executemany("UPDATE events SET is_acknowledged = 1 WHERE jti = ?", [(jti,) for jti in jtis])

    def next_to_handle(self) -> Optional[StoredEvent]:
        found = self.state.rows("SELECT number, jti, token FROM events WHERE is_handled = 0 ORDER BY number LIMIT 1")
        return StoredEvent(*found[0]) if found else None

    def set_handled(self, event: StoredEvent) -> None:
        with self.state.transaction() as database:
            database.execute("UPDATE events SET is_handled = 1 WHERE number = ?", (event.number,))

    def to_handle_count(self) -> int:
        """The number of stored events that are not handled yet."""
        return int(self.state.rows("SELECT count(*) FROM events WHERE is_handled = 0")[0][0])

    def waiting(self) -> dict[str, int]:
        """The number of events that are stored, and that wait to be acknowledged and to be handled."""
        (row,) = self.state.rows(
            "SELECT count(*), (SELECT count(*) FROM events WHERE is_acknowledged = 0),"
            " (SELECT count(*) FROM events WHERE is_handled = 0) FROM events"
        )
        return dict(zip(("stored", "to_acknowledge", "to_handle"), row))

    def forget_old(self) -> None:
        """Remove events that were acknowledged and handled long ago."""
        with self.state.transaction() as database:
            database.execute(
                "DELETE FROM events WHERE is_acknowledged = 1 AND is_handled = 1 AND stored_at < ?",
                (time.time() - REMEMBERED_SECONDS,),
            )

    def close(self) -> None:
        self.state.close()
