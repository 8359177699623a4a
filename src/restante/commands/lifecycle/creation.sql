-- name: insert_command
-- Inserts a command. Returns no row if another command has its dedupe key: an active one, or for a command that needs
-- approval, one that waits for approval too.
INSERT INTO miner_commands
    (command_id, site_id, zone_id, miner_id, command_type, params, sealed_params, priority, rank, status, expires_at, dedupe_key,
     created_at, created_by, approved_by, approved_at, rule_id, max_retries, retry_backoff_sec)
VALUES
    (:command_id, :site_id, :zone_id, :miner_id, :command_type, :params, :sealed_params, :priority, :rank, :status,
     :expires_at, :dedupe_key, :created_at, :created_by, :approved_by, :approved_at, :rule_id, :max_retries, :retry_backoff_sec)
ON CONFLICT DO NOTHING
RETURNING id

-- name: command_with_key
-- Finds the command whose dedupe key prevents the insert of a command in this state.
SELECT command_id, site_id, expires_at FROM miner_commands
WHERE dedupe_key = :dedupe_key
  AND CASE WHEN :status = 'pending_approval' THEN status = 'pending_approval'
           ELSE status IN ('pending', 'dispatched', 'running') END
