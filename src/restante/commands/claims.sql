-- name: ready
-- The first of each type that a site could be handed. A seek for each type, so that a type whose window is full is not
-- read through to find the next; written out, because no form that takes the types as rows comes near its speed.
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE site_id = :site_id AND command_type = 'MINER_RESTART' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS miner_restart
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE site_id = :site_id AND command_type = 'DEVICE_REBOOT' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS device_reboot
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE site_id = :site_id AND command_type = 'HASHING_ENABLE' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS hashing_enable
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE site_id = :site_id AND command_type = 'HASHING_DISABLE' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS hashing_disable
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE site_id = :site_id AND command_type = 'POOL_SET' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS pool_set
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE site_id = :site_id AND command_type = 'SET_FAN' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS set_fan
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE site_id = :site_id AND command_type = 'SET_FREQUENCY' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS set_frequency
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE site_id = :site_id AND command_type = 'POWER_MODE' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS power_mode

-- name: ready_in_zone
-- The same for one zone.
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = 'MINER_RESTART' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS miner_restart
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = 'DEVICE_REBOOT' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS device_reboot
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = 'HASHING_ENABLE' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS hashing_enable
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = 'HASHING_DISABLE' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS hashing_disable
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = 'POOL_SET' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS pool_set
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = 'SET_FAN' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS set_fan
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = 'SET_FREQUENCY' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS set_frequency
UNION ALL
SELECT id, rank, command_type FROM (
    SELECT id, rank, command_type FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = 'POWER_MODE' AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS power_mode

-- name: dispatch
-- Hands a command to a collector: a new attempt with a nonce of its own. Nothing if it cannot be handed out any more,
-- or not to this collector.
UPDATE miner_commands
SET status = :status, lease_owner = :device_id, lease_until = :lease_until, dispatched_at = :now_ms,
    attempt = attempt + 1, nonce = :nonce, signed_at = :now_ms
WHERE id = :id AND status = 'pending' AND expires_at > :now_ms
    AND EXISTS (SELECT 1 FROM edge_devices WHERE id = :device_id AND revoked_at IS NULL)
RETURNING command_id, site_id, zone_id, miner_id, command_type, params, priority, expires_at, dedupe_key, nonce,
    signed_at, lease_until, attempt, retry_count, max_retries,
    -- How long it could have been handed out before it was; of a retry that is not known.
    CASE WHEN attempt = 1 THEN :now_ms - COALESCE(approved_at, created_at) END AS waited_ms

-- name: count_held_back
-- How many of a type wait for its window, up to a bound.
SELECT COUNT(*) AS count FROM (
    SELECT 1 FROM miner_commands
    WHERE site_id = :site_id AND command_type = :command_type AND status = 'pending' AND next_attempt_at IS NULL
    LIMIT :count_max
) AS waiting

-- name: count_held_back_in_zone
-- The same for one zone.
SELECT COUNT(*) AS count FROM (
    SELECT 1 FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = :command_type AND status = 'pending' AND next_attempt_at IS NULL
    LIMIT :count_max
) AS waiting

-- name: zone_of_site
-- Whether a zone is one of the site's.
SELECT id FROM edge_zones WHERE id = :zone_id AND site_id = :site_id

-- name: unrevoked
-- Whether a collector may still be handed anything.
SELECT id FROM edge_devices WHERE id = :device_id AND revoked_at IS NULL
