-- name: moments
-- When something at each site is next due, by three seeks: all that an undisturbed site costs to settle.
SELECT site.value,
    (SELECT MIN(expires_at) FROM miner_commands
     WHERE site_id = site.value AND finished_at IS NULL) AS expiring,
    (SELECT MIN(lease_until) FROM miner_commands
     WHERE site_id = site.value AND status IN ('dispatched', 'running')) AS leased,
    (SELECT MIN(next_attempt_at) FROM miner_commands
     WHERE site_id = site.value AND status = 'pending' AND next_attempt_at IS NOT NULL) AS delayed
FROM json_each(:sites) AS site

-- name: due_to_expire
-- Active commands whose time is over.
SELECT id, command_id, site_id, status, expires_at FROM miner_commands
WHERE site_id = :site_id AND finished_at IS NULL AND expires_at <= :now_ms
ORDER BY expires_at, id LIMIT :rows_max

-- name: expire
-- Ends a command that nobody may be handed any more. Who held it last is kept.
UPDATE miner_commands SET status = :status, finished_at = :now_ms, next_attempt_at = NULL WHERE id = :id

-- name: leases_run_out
-- Commands whose holder has not been heard of in time.
SELECT id, command_id, site_id, status, lease_owner, lease_until, attempt, nonce, ack_hash, ack_attempt,
    retry_count, max_retries, retry_backoff_sec
FROM miner_commands
WHERE site_id = :site_id AND status IN ('dispatched', 'running') AND lease_until <= :now_ms
ORDER BY lease_until, id LIMIT :rows_max

-- name: offer_again
-- Takes the command from its holder; at once ready if its back-off has passed meanwhile.
UPDATE miner_commands
SET status = :status, retry_count = :retry_count, lease_owner = NULL, lease_until = NULL,
    next_attempt_at = CASE WHEN CAST(:next_attempt_at AS BIGINT) > :now_ms THEN :next_attempt_at END
WHERE id = :id

-- name: give_up
-- Ends a command that was lost more often than it may be tried. Who held it last is kept.
UPDATE miner_commands
SET status = :status, finished_at = :now_ms, result_code = :result_code,
    result_message = 'the lease ran out and no retry was left'
WHERE id = :id

-- name: make_ready
-- What has waited for its back-off or deferral can be handed out.
UPDATE miner_commands SET next_attempt_at = NULL
WHERE id IN (
    SELECT id FROM miner_commands
    WHERE site_id = :site_id AND status = 'pending' AND next_attempt_at IS NOT NULL AND next_attempt_at <= :now_ms
    ORDER BY next_attempt_at, id LIMIT :rows_max
)

-- name: sites_due
-- For the scheduler: three seeks a site.
SELECT id FROM edge_sites AS site
WHERE EXISTS (SELECT 1 FROM miner_commands WHERE site_id = site.id
        AND finished_at IS NULL AND expires_at <= :now_ms)
    OR EXISTS (SELECT 1 FROM miner_commands WHERE site_id = site.id
        AND status IN ('dispatched', 'running') AND lease_until <= :now_ms)
    OR EXISTS (SELECT 1 FROM miner_commands WHERE site_id = site.id
        AND status = 'pending' AND next_attempt_at IS NOT NULL AND next_attempt_at <= :now_ms)
ORDER BY id
