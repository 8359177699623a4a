-- name: find
-- The request and response stored under a caller's key.
SELECT body_hash, answer FROM idempotency_keys WHERE actor = :actor AND key = :key

-- name: insert
-- Stores the response to a request that ran under a key.
INSERT INTO idempotency_keys (actor, key, body_hash, answer, size, created_at)
VALUES (:actor, :key, :body_hash, :answer, :size, :now_ms)

-- name: delete_expired
-- Deletes keys that are too old to be repeated.
DELETE FROM idempotency_keys WHERE created_at < :before
