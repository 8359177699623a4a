"""What claims trust instead of looking (`ready_marks`, `site_quiet`), held against what there is."""

from typing import Any

from restante.database.database import Database
from restante.database.queries import Query

HIDDEN = Query(
    "hidden",
    "SELECT c.command_id, c.rank, m.rank AS mark FROM miner_commands AS c"
    " JOIN ready_marks AS m ON m.zone_id = c.zone_id AND m.command_type = c.command_type"
    " WHERE c.status = 'pending' AND c.next_attempt_at IS NULL AND c.rank < m.rank",
)
UNEXPECTED = Query(
    "unexpected",
    "SELECT c.command_id, c.status, q.quiet_until"
    " FROM miner_commands AS c JOIN site_quiet AS q ON q.site_id = c.site_id"
    " WHERE c.finished_at IS NULL AND (q.quiet_until IS NULL OR q.quiet_until > c.expires_at"
    "  OR (c.status IN ('dispatched', 'running') AND q.quiet_until > c.lease_until)"
    "  OR (c.status = 'pending' AND q.quiet_until > c.next_attempt_at))",
)
MARKS = Query("marks", "SELECT zone_id, command_type, rank, frontier FROM ready_marks ORDER BY zone_id, command_type")


def misled(database: Database) -> list[dict[str, Any]]:
    """The commands that a claim would not find, or would settle too late."""
    return database.read_now(lambda conn: [dict(row) for query in (HIDDEN, UNEXPECTED) for row in conn.all(query)])


def marks_of(database: Database) -> list[tuple[Any, ...]]:
    return database.read_now(lambda conn: conn.values(MARKS))
