-- name: approve
-- Makes the command pending; its age in the queue counts from its creation. Changes no row if an active command has the same
-- dedupe key: a violation of the unique index would abort the whole transaction.
UPDATE miner_commands SET status = :status, approved_by = :actor, approved_at = :now_ms
WHERE id = :id AND status = 'pending_approval' AND NOT EXISTS (
    SELECT 1 FROM miner_commands AS active
    WHERE active.dedupe_key = miner_commands.dedupe_key AND active.status IN ('pending', 'dispatched', 'running')
)

-- name: active_with_key
-- Finds the active command with the dedupe key.
SELECT command_id FROM miner_commands
WHERE dedupe_key = :dedupe_key AND status IN ('pending', 'dispatched', 'running')
