-- name: command
-- What must be known of a command to end or approve it.
SELECT id, command_id, site_id, status, expires_at, dedupe_key, created_by FROM miner_commands
WHERE command_id = :command_id

-- name: end
-- The command is over; nobody holds it any more and nothing is waited for. Who held it last stays on record.
UPDATE miner_commands SET status = :status, finished_at = :now_ms, lease_until = NULL, next_attempt_at = NULL,
    result_code = :result_code, result_message = :reason, superseded_by = :superseded_by
WHERE id = :id
