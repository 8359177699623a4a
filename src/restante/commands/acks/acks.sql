-- name: commands
-- The stored commands that ACKs refer to. The columns are the fields of `CommandRow`.
SELECT command_id, status AS state, lease_owner, lease_until AS lease_until_ms, attempt, nonce, ack_hash AS last_ack_hash,
    ack_attempt AS last_ack_attempt, retry_count, max_retries, retry_backoff_sec AS retry_backoff_seconds,
    id, site_id, expires_at, CASE WHEN is_held = 1 THEN NULL ELSE next_attempt_at END AS next_attempt_at, miner_id,
    EXISTS (
        SELECT 1 FROM miner_commands AS held INDEXED BY ix_miner_commands_held
        WHERE held.miner_id = miner_commands.miner_id AND held.is_held = 1 AND held.status = 'pending'
    ) AS has_held
FROM miner_commands WHERE command_id IN (SELECT value FROM json_each(:command_ids))

-- name: commands@postgres
-- PostgreSQL has another function for a list of texts. As an array, the list is sought id by id, even if the table was
-- small when the statement was planned.
SELECT command_id, status AS state, lease_owner, lease_until AS lease_until_ms, attempt, nonce, ack_hash AS last_ack_hash,
    ack_attempt AS last_ack_attempt, retry_count, max_retries, retry_backoff_sec AS retry_backoff_seconds,
    id, site_id, expires_at, CASE WHEN is_held = 1 THEN NULL ELSE next_attempt_at END AS next_attempt_at, miner_id,
    (
        SELECT 1 FROM miner_commands AS held
        WHERE held.miner_id = miner_commands.miner_id AND held.is_held = 1 AND held.status = 'pending'
        ORDER BY held.command_type LIMIT 1
    ) IS NOT NULL AS has_held
FROM miner_commands
WHERE command_id = ANY (ARRAY(SELECT value FROM json_array_elements_text(CAST(:command_ids AS json)) AS listed (value)))

-- name: last_failure
-- The newest failed attempt of a command that a collector reported and that was to be retried. Audit rows are never
-- deleted; the command's own row has the last ACK only, which may be a deferral.
SELECT detail FROM command_audit WHERE command_id = :command_id AND event = :event ORDER BY n DESC LIMIT 1

-- name: keep_running
-- The command is in progress. Its lease stays.
UPDATE miner_commands
SET status = :status, ack_hash = :ack_hash, ack_attempt = :attempt, acked_at = :now_ms,
    executed_at = COALESCE(:executed_at, executed_at), result_code = :result_code, result_message = :result_message,
    before_snapshot = COALESCE(:before_snapshot, before_snapshot),
    after_snapshot = COALESCE(:after_snapshot, after_snapshot)
WHERE id = :id

-- name: requeue
-- The command is dispatched again from the given time on.
UPDATE miner_commands
SET status = :status, ack_hash = :ack_hash, ack_attempt = :attempt, acked_at = :now_ms,
    executed_at = COALESCE(:executed_at, executed_at), result_code = :result_code, result_message = :result_message,
    before_snapshot = COALESCE(:before_snapshot, before_snapshot),
    after_snapshot = COALESCE(:after_snapshot, after_snapshot),
    retry_count = :retry_count, next_attempt_at = :next_attempt_at, lease_owner = NULL, lease_until = NULL
WHERE id = :id

-- name: finish
-- The command has ended. The row keeps its last lease owner.
UPDATE miner_commands
SET status = :status, ack_hash = :ack_hash, ack_attempt = :attempt, acked_at = :now_ms,
    executed_at = COALESCE(:executed_at, executed_at), result_code = :result_code, result_message = :result_message,
    before_snapshot = COALESCE(:before_snapshot, before_snapshot),
    after_snapshot = COALESCE(:after_snapshot, after_snapshot),
    finished_at = :now_ms
WHERE id = :id
