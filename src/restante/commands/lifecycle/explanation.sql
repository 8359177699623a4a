-- name: command
-- The columns that the explanation depends on.
SELECT id, site_id, zone_id, miner_id, command_type, rank, status, expires_at, created_by, lease_owner, lease_until, attempt,
    retry_count, max_retries, next_attempt_at, is_held, result_code, superseded_by, finished_at
FROM miner_commands WHERE command_id = :command_id

-- name: collector
-- The name of a lease owner.
SELECT device_name FROM edge_devices WHERE id = :device_id

-- name: leased_for_miner
-- The command of a miner that is in progress.
SELECT command_id, lease_until FROM miner_commands
WHERE miner_id = :miner_id AND status IN ('dispatched', 'running') ORDER BY lease_until DESC LIMIT 1

-- name: collectors_for
-- The collectors that could claim a command: those of its zone, and those of the whole site.
SELECT COUNT(*) AS collectors, MAX(last_seen_at) AS last_seen_at FROM edge_devices
WHERE site_id = :site_id AND revoked_at IS NULL AND (zone_id IS NULL OR zone_id = :zone_id)

-- name: count_ahead
-- How many ready commands come first, up to a maximum.
SELECT COUNT(*) AS count FROM (
    SELECT 1 FROM miner_commands
    WHERE zone_id IN (SELECT id FROM edge_zones WHERE site_id = :site_id)
      AND status = 'pending' AND next_attempt_at IS NULL
      AND (rank < :rank OR (rank = :rank AND id < :id))
    LIMIT :count_max
) AS ahead
