-- name: commands
-- What decides about ACKs.
SELECT id, site_id, expires_at, next_attempt_at, command_id, status, lease_owner, lease_until, attempt, nonce, ack_hash,
    ack_attempt, retry_count, max_retries, retry_backoff_sec
FROM miner_commands WHERE command_id IN (SELECT value FROM json_each(:command_ids))

-- name: commands@postgres
-- PostgreSQL takes a list of texts apart by another function. As an array it is sought for one by one, however small the
-- table was when the statement was planned.
SELECT id, site_id, expires_at, next_attempt_at, command_id, status, lease_owner, lease_until, attempt, nonce, ack_hash,
    ack_attempt, retry_count, max_retries, retry_backoff_sec
FROM miner_commands
WHERE command_id = ANY (ARRAY(SELECT value FROM json_array_elements_text(CAST(:command_ids AS json)) AS listed (value)))

-- name: go_on
-- The command is in progress; its holder keeps the lease.
UPDATE miner_commands
SET status = :status, ack_hash = :ack_hash, ack_attempt = :attempt, acked_at = :now_ms,
    executed_at = COALESCE(:executed_at, executed_at), result_code = :result_code, result_message = :result_message,
    before_snapshot = COALESCE(:before_snapshot, before_snapshot),
    after_snapshot = COALESCE(:after_snapshot, after_snapshot)
WHERE id = :id

-- name: hand_back
-- The command is to be handed out again, at the given moment.
UPDATE miner_commands
SET status = :status, ack_hash = :ack_hash, ack_attempt = :attempt, acked_at = :now_ms,
    executed_at = COALESCE(:executed_at, executed_at), result_code = :result_code, result_message = :result_message,
    before_snapshot = COALESCE(:before_snapshot, before_snapshot),
    after_snapshot = COALESCE(:after_snapshot, after_snapshot),
    retry_count = :retry_count, next_attempt_at = :next_attempt_at, lease_owner = NULL, lease_until = NULL
WHERE id = :id

-- name: finish
-- The command has ended. Who held it last is kept.
UPDATE miner_commands
SET status = :status, ack_hash = :ack_hash, ack_attempt = :attempt, acked_at = :now_ms,
    executed_at = COALESCE(:executed_at, executed_at), result_code = :result_code, result_message = :result_message,
    before_snapshot = COALESCE(:before_snapshot, before_snapshot),
    after_snapshot = COALESCE(:after_snapshot, after_snapshot),
    finished_at = :now_ms
WHERE id = :id
