-- name: approve
-- The command may be handed out; its age in the queue counts from when it was made. Nothing if an active one has its
-- dedupe key: the unique index would refuse it, and with it all else that is in the transaction.
UPDATE miner_commands SET status = :status, approved_by = :actor, approved_at = :now_ms
WHERE id = :id AND status = 'pending_approval' AND NOT EXISTS (
    SELECT 1 FROM miner_commands AS active
    WHERE active.dedupe_key = miner_commands.dedupe_key AND active.status IN ('pending', 'dispatched', 'running')
)

-- name: active_with_key
-- The active command that has the dedupe key.
SELECT command_id FROM miner_commands
WHERE dedupe_key = :dedupe_key AND status IN ('pending', 'dispatched', 'running')
