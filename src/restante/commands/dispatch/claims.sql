-- name: lease
-- Leases a command to a collector: a new attempt with its own nonce. This transaction has read the command as ready.
UPDATE miner_commands
SET status = :status, lease_owner = :device_id, lease_until = :lease_until, dispatched_at = :now_ms,
    attempt = :attempt, nonce = :nonce, signed_at = :now_ms
WHERE id = :id

-- name: rename_params
-- Replaces the parameters of a command by the same ones under the names that collectors read.
UPDATE miner_commands SET params = :params WHERE id = :id

-- name: cancel_unreadable
-- Ends a command whose stored parameters no collector could read.
UPDATE miner_commands SET status = 'cancelled', finished_at = :now_ms, result_code = 'PARAMS_UNREADABLE',
    result_message = :message
WHERE id = :id

-- name: zone_of_site
-- Finds the zone if it belongs to the site.
SELECT id FROM edge_zones WHERE id = :zone_id AND site_id = :site_id
