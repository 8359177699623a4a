-- name: command
-- The columns that decide whether a command can be ended or approved.
SELECT id, command_id, site_id, miner_id, status, expires_at, dedupe_key, created_by FROM miner_commands
WHERE command_id = :command_id

-- name: end
-- Ends the command: no lease, no next attempt. The row keeps its last lease owner.
UPDATE miner_commands SET status = :status, finished_at = :now_ms, lease_until = NULL, next_attempt_at = NULL, is_held = 0,
    result_code = :result_code, result_message = :reason, superseded_by = :superseded_by
WHERE id = :id
