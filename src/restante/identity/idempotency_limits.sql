-- name: usages
-- How much each caller stores. Read from the index alone.
SELECT actor, COUNT(*) AS keys, CAST(SUM(size) AS BIGINT) AS bytes FROM idempotency_keys GROUP BY actor ORDER BY actor

-- name: oldest
-- The oldest keys of a caller.
SELECT key, size FROM idempotency_keys WHERE actor = :actor ORDER BY created_at LIMIT :batch

-- name: delete
-- Deletes a key of a caller.
DELETE FROM idempotency_keys WHERE actor = :actor AND key = :key
