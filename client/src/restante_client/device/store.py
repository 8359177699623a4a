"""The stored state of a device: its id, tokens, cursor, and which signals it has handled.

The server's cursor moves by whole responses. `handled` holds the signals (type and time, which are unique for a device)
that were handled since, so that a device that stops in the middle of a response does not handle them again.
"""

from __future__ import annotations

import base64
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import msgspec

from restante_client.device.models import Session, Signal
from restante_client.errors import StateError
from restante_client.state import StateFolder

if TYPE_CHECKING:
    from nacl.public import PrivateKey

KEY_FILE = "device.key"
KEY_BYTES = 32
# More than a server keeps for a device by default, so that a resync does not repeat signals.
HANDLED_MAX = 2000


class StoredSession(msgspec.Struct, frozen=True):
    access_token: str
    refresh_token: str
    expires_at: float

    def __repr__(self) -> str:
        return "StoredSession(…)"


class DeviceStore:
    def __init__(self, folder: Path) -> None:
        self.state = StateFolder(folder)
        self.state.database.execute(
            "CREATE TABLE IF NOT EXISTS handled"
            " (number INTEGER PRIMARY KEY, type TEXT NOT NULL, ts_ms INTEGER NOT NULL, UNIQUE (type, ts_ms))"
        )

    @property
    def private_key(self) -> PrivateKey:
        """The X25519 key of this device, created at the first use."""
        from nacl.public import PrivateKey

        return PrivateKey(self.private_key_bytes)

    @property
    def private_key_bytes(self) -> bytes:
        """The 32 bytes of the X25519 key."""
        text = self.state.key_file(KEY_FILE, base64.b64encode(os.urandom(KEY_BYTES)) + b"\n")
        try:
            found = base64.b64decode(text, validate=False)
        except ValueError:
            found = b""
        if len(found) != KEY_BYTES:
            raise StateError(f"{self.state.folder / KEY_FILE} is not a device key")
        return found

    @property
    def public_id(self) -> str:
        """The UUID that this device chose, created at the first use."""
        found = self.state.read("public_id")
        if found is None:
            with self.state.transaction():
                # Another process may have been first.
                found = self.state.read("public_id")
                if found is None:
                    found = str(uuid.uuid4()).encode()
                    self.state.put("public_id", found)
        return found.decode()

    @property
    def device_id(self) -> Optional[int]:
        found = self.state.read("device_id")
        return None if found is None else int(found)

    def save_registration(self, device_id: int, session: Session) -> None:
        with self.state.transaction():
            self.state.put("device_id", str(device_id).encode())
            self._put_session(session)

    @property
    def session(self) -> Optional[StoredSession]:
        found = self.state.read("session")
        return None if found is None else msgspec.json.decode(found, type=StoredSession)

    def save_session(self, session: Session) -> None:
        with self.state.transaction():
            self._put_session(session)

    def _put_session(self, session: Session) -> None:
        stored = StoredSession(session.access_token, session.refresh_token, time.time() + session.expires_in)
        self.state.put("session", msgspec.json.encode(stored))

    @property
    def cursor(self) -> Optional[str]:
        found = self.state.read("cursor")
        return None if found is None else found.decode()

    def save_cursor(self, cursor: str) -> None:
        if cursor != self.cursor:
            self.state.write("cursor", cursor.encode())

    def is_handled(self, signal: Signal) -> bool:
        return bool(self.state.rows("SELECT 1 FROM handled WHERE type = ? AND ts_ms = ?", signal.type, signal.ts_ms))

    def save_handled(self, signal: Signal) -> None:
        with self.state.transaction() as database:
            added = database.execute(
                "INSERT OR IGNORE INTO handled (type, ts_ms) VALUES (?, ?)", (signal.type, signal.ts_ms)
            )
            if added.lastrowid is not None:
                database.execute("DELETE FROM handled WHERE number <= ?", (added.lastrowid - HANDLED_MAX,))

    def close(self) -> None:
        self.state.close()
