-- name: find
-- What a caller's key was used for.
SELECT body_hash, answer FROM idempotency_keys WHERE actor = :actor AND key = :key

-- name: insert
-- A request that was carried out under a key.
INSERT INTO idempotency_keys (actor, key, body_hash, answer, created_at)
VALUES (:actor, :key, :body_hash, :answer, :now_ms)

-- name: forget
-- Keys nobody will repeat any more.
DELETE FROM idempotency_keys WHERE created_at < :before
