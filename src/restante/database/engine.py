"""The interface of a database engine (SQLite, PostgreSQL): connections that carry one transaction at a time.

An engine that several nodes can share also has a channel between them. Only PostgreSQL has one.
"""

from typing import Protocol

from restante.database.connection import Connection

# PostgreSQL accepts payloads of less than 8000 bytes.
PAYLOAD_BYTES_MAX = 7900


class Channel(Protocol):
    """One end of the channel between nodes, used by one thread.

    A payload reaches all ends that listen when it is sent. It is neither stored nor confirmed. Every call raises
    DatabaseUnavailable if the database cannot be reached.
    """

    def listen(self) -> None:
        """Receive everything that is sent from now on."""

    def wait(self, seconds: float) -> list[str]:
        """Return the payloads that have arrived; an empty list if none arrives in this time."""

    def send(self, payloads: list[str]) -> None: ...

    def close(self) -> None: ...


class EngineConnection(Connection, Protocol):
    """A connection as the code that opens its transactions sees it."""

    def begin(self, *, waits_for_locks: bool = True) -> None:
        """Open a transaction.

        With `waits_for_locks=False`, for a transaction that several writes share: once it holds locks or changes that
        others may wait for, it raises LockHeld instead of waiting for a lock.
        """

    def flush(self) -> None:
        """Return when all statements so far have run. Statements without a result may be in flight until then."""

    def commit(self) -> list[object]:
        """Make the transaction durable. Returns its commit events."""

    def rollback(self) -> None: ...
    def foreign_version(self) -> int:
        """A number that changes when, and only when, another connection has committed."""

    def limit_transactions(self) -> None:
        """For the writers of a server: bound how long a transaction keeps its locks if this process is frozen."""

    def run_script(self, source: str) -> None:
        """Run several statements in the open transaction."""

    def close(self) -> None: ...

    @property
    def change_count(self) -> int:
        """Grows with every changed row and every commit event: two equal readings prove that there was neither."""

    @property
    def commit_events(self) -> list[object]:
        """The commit events of the open transaction so far."""


class Engine(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def is_shared(self) -> bool:
        """Whether other servers may use the same database."""

    @property
    def writers(self) -> int:
        """How many connections write at the same time."""

    @property
    def readers(self) -> int:
        """How many connections read at the same time."""

    def connect(self, *, writable: bool) -> EngineConnection: ...
    def lost_file(self) -> str | None:
        """How the file of an embedded database was lost since the first connection; None if it was not."""

    def checkpoint(self) -> bool:
        """Called after the last connection of this process was closed: leave all data in the database's main file.

        False if another process keeps a part of it from there.
        """

    def translate_schema(self, source: str) -> str:
        """Translate a migration into this engine's SQL dialect."""

    def channel(self) -> Channel | None:
        """Make one end of the channel between nodes, not connected yet. None if only one node can use the database."""
