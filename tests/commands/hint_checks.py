"""Checks the hints that claims rely on instead of a scan (`ready_marks`, `site_quiet`) against the commands."""

from typing import Any

from restante.database.database import Database
from restante.database.queries import Query

BELOW_WATERMARK = Query(
    "below_watermark",
    "SELECT c.command_id, c.rank, m.rank AS watermark FROM miner_commands AS c"
    " JOIN ready_marks AS m ON m.zone_id = c.zone_id AND m.command_type = c.command_type"
    " WHERE c.status = 'pending' AND c.next_attempt_at IS NULL AND c.rank < m.rank",
)
DUE_TOO_EARLY = Query(
    "due_too_early",
    "SELECT c.command_id, c.status, q.quiet_until"
    " FROM miner_commands AS c JOIN site_quiet AS q ON q.site_id = c.site_id"
    " WHERE c.finished_at IS NULL AND (q.quiet_until IS NULL OR q.quiet_until > c.expires_at"
    "  OR (c.status IN ('dispatched', 'running') AND q.quiet_until > c.lease_until)"
    "  OR (c.status = 'pending' AND q.quiet_until > c.next_attempt_at))",
)
HELD_FOR_NOTHING = Query(
    "held_for_nothing",
    "SELECT c.command_id, c.miner_id FROM miner_commands AS c"
    " WHERE c.status = 'pending' AND c.is_held = 1 AND NOT EXISTS ("
    "  SELECT 1 FROM miner_commands AS other WHERE other.miner_id = c.miner_id AND ("
    "   other.status IN ('dispatched', 'running') OR (other.status = 'pending' AND other.next_attempt_at IS NULL"
    "    AND other.command_type = c.command_type AND (other.rank, other.id) < (c.rank, c.id))))",
)
HELD_WITHOUT_NEED = Query(
    "held_without_need",
    "SELECT command_id, status FROM miner_commands"
    " WHERE is_held = 1 AND (status <> 'pending' OR next_attempt_at IS NULL OR miner_id IS NULL)",
)
TWO_LEASES = Query(
    "two_leases",
    "SELECT miner_id, COUNT(*) AS leases FROM miner_commands WHERE status IN ('dispatched', 'running')"
    " AND miner_id IS NOT NULL GROUP BY miner_id HAVING COUNT(*) > 1",
)
WATERMARKS = Query(
    "watermarks", "SELECT zone_id, command_type, rank, frontier FROM ready_marks ORDER BY zone_id, command_type"
)
HIDING = (BELOW_WATERMARK, DUE_TOO_EARLY, HELD_FOR_NOTHING, HELD_WITHOUT_NEED)


def commands_hidden_by_hints(database: Database) -> list[dict[str, Any]]:
    """The commands that a claim would miss, or would settle too late, because a hint or a hold is wrong."""
    return database.read_now(lambda conn: [dict(row) for query in HIDING for row in conn.all(query)])


def miners_with_two_leases(database: Database) -> list[dict[str, Any]]:
    return database.read_now(lambda conn: [dict(row) for row in conn.all(TWO_LEASES)])


def watermarks_of(database: Database) -> list[tuple[Any, ...]]:
    return database.read_now(lambda conn: conn.values(WATERMARKS))
