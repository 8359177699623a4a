"""Where to begin to look for what can be handed out: a mark for each type in a zone, below which nothing can be.

    entries of what was handed out · · · · · · · │ mark │ ready, by rank
                                    ▲            └─ raised every so many hand-outs
                                    └─ a command of low rank: the mark is lowered to it, and raised when it is gone

PostgreSQL leaves the entries in the index until no transaction is open that began before: each look would step over
all of them, for as long as somebody has left one open. The marks are read where commands are (`claims.sql`) and lowered
by the database itself, whoever makes a command ready (see the migration). SQLite has no such entries and no marks.

Must always hold: nothing that can be handed out is below its mark. A mark is raised with the site locked, and no higher
than to the first that was there and has not been taken.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Protocol

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Of a type at a site. So many entries are stepped over at most, and the mark has one version for so many hand-outs.
RAISE_EVERY = 128


class Ready(Protocol):
    """A command that was found, the mark from which on was looked, and how high that ever was; None: none is kept."""

    @property
    def rank(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def site_id(self) -> int: ...
    @property
    def zone_id(self) -> int: ...
    @property
    def command_type(self) -> str: ...
    @property
    def mark(self) -> int | None: ...
    @property
    def frontier(self) -> int | None: ...


def raise_marks(
    conn: Connection, queues: Iterable[Sequence[Ready]], taken: Container[int], passing: Container[tuple[int, str]]
) -> None:
    """Raise each mark that was lowered and need not be any more; and those of types at sites of which so many were
    handed out. In each queue are, of each type in each zone and in order, all there are or more than were taken."""
    kinds: dict[tuple[int, str], list[Ready]] = {}
    for queue in queues:
        own: dict[tuple[int, str], list[Ready]] = {}
        for row in queue:
            if row.mark is not None and (_is_lowered(row) or (row.site_id, row.command_type) in passing):
                own.setdefault((row.zone_id, row.command_type), []).append(row)
        kinds |= own
    rows = []
    for kind, found in kinds.items():
        left = next((row for row in found if row.id not in taken), None)
        rank = found[-1].rank + 1 if left is None else left.rank
        if left is None or (found[0].site_id, kind[1]) in passing or rank >= (found[0].frontier or rank):
            rows.append((*kind, rank, int(left is None)))
    conn.run_rows(SQL.raise_mark, rows)


def _is_lowered(row: Ready) -> bool:
    return row.frontier is not None and row.mark is not None and row.mark < row.frontier
