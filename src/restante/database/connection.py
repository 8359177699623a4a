"""What domain code sees of a database: a transaction somebody else opened, and named queries to run in it.

Domain functions are plain and synchronous, `def revoke(conn: Connection, …)`, and know neither engine nor asyncio.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from restante.database.queries import Query


class Row(Protocol):
    """A row by column name; `SomeDataclass(**row)` works."""

    def __getitem__(self, column: str, /) -> Any: ...
    def keys(self) -> Iterable[str]: ...


class Connection(Protocol):
    """One open transaction."""

    @property
    def now_ms(self) -> int:
        """The database's clock, read once in the transaction: all its times are the same moment."""

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        """Every row of the answer."""

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        """The first row of the answer, or None."""

    def run(self, query: Query, /, **parameters: Any) -> int:
        """Run a statement that answers nothing; how many rows it changed."""

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]], /) -> None:
        """Run a statement once for each row of parameters."""

    # The same for what is run most: plain tuples are made and taken apart in half the time.

    def values(self, query: Query, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """Every row of the answer, its values in the order of the query's columns."""

    def values_later(self, query: Query, /, **parameters: Any) -> Callable[[], list[tuple[Any, ...]]]:
        """The same, read now, and told when it is called for: what is wanted together is best asked for together."""

    def run_rows(self, query: Query, rows: Iterable[tuple[Any, ...]], /) -> None:
        """Run a statement once for each row, its values in the order in which the query first names its parameters."""

    def announce(self, event: object, /) -> None:
        """Tell the process about a change, after it is committed and only then: see `Database.on_commit`."""

    def lock(self, kind: str, /, *keys: int | str) -> None:
        """Be the only one who works on these, until the transaction ends; before reading what is decided on. Nothing to
        do where there is one writer at a time."""
