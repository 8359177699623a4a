-- name: insert_command
-- A new command; no row if an active one, or one that waits for approval as this would, has its dedupe key.
INSERT INTO miner_commands
    (command_id, site_id, zone_id, miner_id, command_type, params, priority, rank, status, expires_at, dedupe_key,
     created_at, created_by, rule_id, max_retries, retry_backoff_sec)
VALUES
    (:command_id, :site_id, :zone_id, :miner_id, :command_type, :params, :priority, :rank, :status, :expires_at,
     :dedupe_key, :created_at, :created_by, :rule_id, :max_retries, :retry_backoff_sec)
ON CONFLICT DO NOTHING
RETURNING id

-- name: holder_of_key
-- The command whose dedupe key stands in the way of another in this state.
SELECT command_id, site_id, expires_at FROM miner_commands
WHERE dedupe_key = :dedupe_key
  AND CASE WHEN :status = 'pending_approval' THEN status = 'pending_approval'
           ELSE status IN ('pending', 'dispatched', 'running') END
