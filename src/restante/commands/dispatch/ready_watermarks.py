"""Ready watermarks: for each command type in a zone, a rank below which no command is ready.

    index entries of leased commands · · · · · · │ watermark │ ready commands, by rank
                                    ▲            └─ raised every RAISE_EVERY dispatches
                                    └─ a command of lower rank becomes ready: the watermark is lowered to it, and
                                       raised again once that command is leased

PostgreSQL keeps the index entries of leased commands until every older transaction has ended. Without a watermark each
claim would step over all of them for as long as any transaction stays open. Claims read from the watermark on
(`ready_commands.sql`). A trigger lowers it whenever any statement makes a command ready (see the migration). SQLite
leaves no such entries and keeps no watermarks.

Invariants: no ready command is below its watermark. A watermark is raised only under the site's lock, and no higher
than the first command that was read and not leased.
"""

from collections.abc import Container, Iterable, Sequence

from restante.commands.dispatch.ready_commands import ReadyCommand
from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Counted per type and site. Bounds how many entries a claim steps over, and how many versions a watermark's row has.
RAISE_EVERY = 128


def raise_watermarks(
    conn: Connection,
    queues: Iterable[Sequence[ReadyCommand]],
    leased_ids: Container[int],
    to_raise: Container[tuple[int, str]],
) -> None:
    """Raise every watermark that was lowered and need not be any more, and those of the sites and types in `to_raise`.

    Of each type in each zone, a queue must hold either every ready command or more than were leased, in order.
    """
    ready: dict[tuple[int, str], list[ReadyCommand]] = {}
    for queue in queues:
        ready_here: dict[tuple[int, str], list[ReadyCommand]] = {}
        for row in queue:
            if row.watermark is not None and (_is_lowered(row) or (row.site_id, row.command_type) in to_raise):
                ready_here.setdefault((row.zone_id, row.command_type), []).append(row)
        ready |= ready_here
    raised = []
    for (zone_id, command_type), commands in ready.items():
        first = commands[0]
        left = next((row for row in commands if row.id not in leased_ids), None)
        rank = commands[-1].rank + 1 if left is None else left.rank
        if left is None or (first.site_id, command_type) in to_raise or rank >= (first.frontier or rank):
            raised.append((zone_id, command_type, rank, int(left is None)))
    conn.run_rows(SQL.raise_watermark, raised)


def _is_lowered(row: ReadyCommand) -> bool:
    return row.frontier is not None and row.watermark is not None and row.watermark < row.frontier
