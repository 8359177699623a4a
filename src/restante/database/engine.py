"""What an engine gives: connections that carry one transaction at a time. SQLite and PostgreSQL."""

from typing import Protocol

from restante.database.channel import Channel
from restante.database.connection import Connection


class EngineConnection(Connection, Protocol):
    """A connection as seen by whoever opens its transactions."""

    def begin(self, *, patient: bool = True) -> None:
        """Open a transaction. One that several share is not patient: rather than wait for what another transaction
        holds, while others may wait for it, it raises Contended."""

    def arrive(self) -> None:
        """Return when all that was run so far has been done. What nobody waits for may be on its way until then."""

    def commit(self) -> list[object]: ...
    def rollback(self) -> None: ...
    def foreign_commits(self) -> int: ...
    def run_script(self, source: str) -> None: ...
    def close(self) -> None: ...

    @property
    def changes(self) -> int: ...
    @property
    def announced(self) -> list[object]:
        """What the open transaction has announced so far."""


class Engine(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def is_shared(self) -> bool:
        """Whether other servers may work on the same database."""

    @property
    def writers(self) -> int:
        """How many connections write at the same time."""

    @property
    def readers(self) -> int:
        """How many connections read at the same time."""

    def connect(self, *, writable: bool) -> EngineConnection: ...
    def schema(self, source: str) -> str:
        """A migration in the words that this engine gets it in."""

    def channel(self) -> Channel | None:
        """One end, not connected yet, of what nodes tell each other by; None where only one node can be."""
