-- name: command
-- What the answer depends on.
SELECT id, site_id, zone_id, command_type, rank, status, expires_at, created_by, lease_owner, lease_until, attempt,
    retry_count, max_retries, next_attempt_at, result_code, superseded_by, finished_at
FROM miner_commands WHERE command_id = :command_id

-- name: collector
-- Who holds a lease.
SELECT device_name FROM edge_devices WHERE id = :device_id

-- name: collectors_for
-- Who could take a command: collectors of its zone, and those that serve the whole site.
SELECT COUNT(*) AS collectors, MAX(last_seen_at) AS last_seen_at FROM edge_devices
WHERE site_id = :site_id AND revoked_at IS NULL AND (zone_id IS NULL OR zone_id = :zone_id)

-- name: count_ahead
-- How many go before it, up to a bound.
SELECT COUNT(*) AS count FROM (
    SELECT 1 FROM miner_commands
    WHERE zone_id IN (SELECT id FROM edge_zones WHERE site_id = :site_id)
      AND status = 'pending' AND next_attempt_at IS NULL
      AND (rank < :rank OR (rank = :rank AND id < :id))
    LIMIT :count_max
) AS ahead
