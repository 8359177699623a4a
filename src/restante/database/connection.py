"""The view that domain code has of a database: an open transaction, and named queries to run in it.

Domain functions are plain and synchronous, `def revoke(conn: Connection, …)`. They use neither engine nor asyncio,
and they never open or end the transaction.
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
        """The database's clock, read once per transaction: every read of it gives the same time."""

    @property
    def now_parameter(self) -> int | None:
        """`now_ms` as the parameter of a prefetched query, without waiting for it.

        None: only the server knows it yet. The query reads it there, from the setting `restante.now_ms`.
        """

    def all(self, query: Query, /, **parameters: Any) -> list[Row]:
        """All rows of the result."""

    def one(self, query: Query, /, **parameters: Any) -> Row | None:
        """The first row of the result, or None."""

    def run(self, query: Query, /, **parameters: Any) -> int:
        """Run a statement that returns no rows. Returns the number of rows it changed."""

    def run_many(self, query: Query, rows: Iterable[Mapping[str, Any]], /) -> None:
        """Run a statement once for each row of parameters."""

    # The same with plain tuples, for hot paths: half the cost of rows by name.

    def values(self, query: Query, /, **parameters: Any) -> list[tuple[Any, ...]]:
        """All rows of the result, as values in the order of the query's columns."""

    def prefetch(self, query: Query, /, **parameters: Any) -> Callable[[], list[tuple[Any, ...]]]:
        """Like `values`, but sent now and returned by the function: several prefetched queries share one round trip."""

    def run_rows(self, query: Query, rows: Iterable[tuple[Any, ...]], /) -> None:
        """Run a statement once for each row, its values in the order in which the query first names its parameters."""

    def add_commit_event(self, event: object, /) -> None:
        """Publish an event in this process if and when the transaction has committed: see `Database.on_commit`."""

    def lock(self, kind: str, /, *keys: int | str) -> None:
        """Lock these names until the transaction ends. Lock before you read the data that you decide on.

        Does nothing on an engine with a single writer.
        """
