"""The state folder of a client: one SQLite file and key files, readable by their owner alone.

Invariants:
- Every write is on disk before the method returns (`synchronous=FULL`).
- A key file appears whole or not at all.
- One thread at a time uses the connection: a program may read the state while another thread runs the client.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from restante_client.errors import StateError
from restante_client.runtime import Runtime

DATABASE_FILE = "state.db"
BUSY_SECONDS = 10.0
LOCK_RETRY_SECONDS = 0.05


class StateFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = folder / DATABASE_FILE
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
            self.database = sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            # One flush for each write, which matters on flash memory.
            self.database.execute("PRAGMA journal_mode = WAL")
            self.database.execute("PRAGMA synchronous = FULL")
            self.database.execute(
                "CREATE TABLE IF NOT EXISTS entries (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"the state folder {folder} cannot be used: {error}") from error

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run statements that take effect together."""
        with self._lock:
            try:
                self.database.execute("BEGIN IMMEDIATE")
                try:
                    yield self.database
                except BaseException:
                    self.database.execute("ROLLBACK")
                    raise
                self.database.execute("COMMIT")
            except sqlite3.Error as error:
                raise StateError(f"the state in {self.folder} cannot be written: {error}") from error

    def rows(self, query: str, *parameters: Any) -> list[Any]:
        """All rows of a query."""
        with self._lock:
            try:
                return self.database.execute(query, parameters).fetchall()
            except sqlite3.Error as error:
                raise StateError(f"the state in {self.folder} cannot be read: {error}") from error

    def read(self, name: str) -> bytes | None:
        found = self.rows("SELECT value FROM entries WHERE name = ?", name)
        return bytes(found[0][0]) if found else None

    def write(self, name: str, value: bytes) -> None:
        with self.transaction():
            self.put(name, value)

    def put(self, name: str, value: bytes) -> None:
        """Set an entry within a transaction."""
        self.database.execute(
            "INSERT INTO entries (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, value),
        )

    def key_file(self, name: str, new: bytes) -> bytes:
        """The content of a key file. If there is none, it is created with `new`."""
        file = self.folder / name
        try:
            with contextlib.suppress(FileNotFoundError):
                return file.read_bytes()
            temporary = self.folder / f".{name}.{os.getpid()}"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as writing:
                writing.write(new)
                writing.flush()
                os.fsync(writing.fileno())
            # A link fails if another process was first; then its key counts.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, file)
            os.unlink(temporary)
            return file.read_bytes()
        except OSError as error:
            raise StateError(f"the key file {file} cannot be used: {error}") from error

    @contextlib.asynccontextmanager
    async def lock(self, name: str, runtime: Runtime, timeout_seconds: float) -> AsyncIterator[None]:
        """Keep other processes and other clients of this folder out of the same work."""
        descriptor = os.open(self.folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            waited_seconds = 0.0
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if waited_seconds >= timeout_seconds:
                        raise StateError(f"another process holds the lock {name} in {self.folder}") from None
                waited_seconds += LOCK_RETRY_SECONDS
                await runtime.sleep(LOCK_RETRY_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self.database.close()
