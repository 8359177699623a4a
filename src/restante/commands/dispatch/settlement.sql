-- name: due_times
-- The next due times of each site, by three seeks. A site where nothing is due costs no more than this.
SELECT site.value,
    (SELECT MIN(expires_at) FROM miner_commands
     WHERE site_id = site.value AND finished_at IS NULL) AS expiring,
    (SELECT MIN(lease_until) FROM miner_commands
     WHERE site_id = site.value AND status IN ('dispatched', 'running')) AS leased,
    (SELECT MIN(next_attempt_at) FROM miner_commands
     WHERE site_id = site.value AND status = 'pending' AND next_attempt_at IS NOT NULL) AS delayed
FROM json_each(:sites) AS site

-- name: expired_commands
-- Active commands past their expiry.
SELECT id, command_id, site_id, status AS state, expires_at, miner_id FROM miner_commands
WHERE site_id = :site_id AND finished_at IS NULL AND expires_at <= :now_ms
ORDER BY expires_at, id LIMIT :rows_max

-- name: expire
-- Ends an expired command. The row keeps its last lease owner.
UPDATE miner_commands SET status = :status, finished_at = :now_ms, next_attempt_at = NULL, is_held = 0 WHERE id = :id

-- name: expired_leases
-- Leased commands that were not acknowledged in time. The columns bear the names of the fields of `CommandSnapshot`.
SELECT id, command_id, site_id, status AS state, lease_owner, lease_until AS lease_until_ms, attempt, nonce,
    ack_hash AS last_ack_hash, ack_attempt AS last_ack_attempt, retry_count, max_retries,
    retry_backoff_sec AS retry_backoff_seconds, miner_id
FROM miner_commands
WHERE site_id = :site_id AND status IN ('dispatched', 'running') AND lease_until <= :now_ms
ORDER BY lease_until, id LIMIT :rows_max

-- name: requeue
-- Takes the command from its lease owner. It is ready at once if its back-off has already passed.
UPDATE miner_commands
SET status = :status, retry_count = :retry_count, lease_owner = NULL, lease_until = NULL,
    next_attempt_at = CASE WHEN CAST(:next_attempt_at AS BIGINT) > :now_ms THEN :next_attempt_at END
WHERE id = :id

-- name: give_up
-- Ends a command whose lease ran out with no retry left. The row keeps its last lease owner.
UPDATE miner_commands
SET status = :status, finished_at = :now_ms, result_code = :result_code,
    result_message = 'the lease ran out and no retry was left'
WHERE id = :id

-- name: end_delays
-- Makes the commands ready whose back-off or deferral has ended, and held ones that are to be checked.
UPDATE miner_commands SET next_attempt_at = NULL, is_held = 0
WHERE id IN (
    SELECT id FROM miner_commands
    WHERE site_id = :site_id AND status = 'pending' AND next_attempt_at IS NOT NULL AND next_attempt_at <= :now_ms
    ORDER BY next_attempt_at, id LIMIT :rows_max
)

-- name: sites_due
-- For the lease sweeper: three seeks per site.
SELECT id FROM edge_sites AS site
WHERE EXISTS (SELECT 1 FROM miner_commands WHERE site_id = site.id
        AND finished_at IS NULL AND expires_at <= :now_ms)
    OR EXISTS (SELECT 1 FROM miner_commands WHERE site_id = site.id
        AND status IN ('dispatched', 'running') AND lease_until <= :now_ms)
    OR EXISTS (SELECT 1 FROM miner_commands WHERE site_id = site.id
        AND status = 'pending' AND next_attempt_at IS NOT NULL AND next_attempt_at <= :now_ms)
ORDER BY id
