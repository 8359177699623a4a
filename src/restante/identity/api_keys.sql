-- name: insert_key
-- A new key, known from now on by its digest only.
INSERT INTO api_keys (name, key_hash, role, created_at)
VALUES (:name, :key_hash, :role, :now_ms)
RETURNING id

-- name: find_key
-- Who holds this key, unless it was revoked.
SELECT id, name, role FROM api_keys WHERE key_hash = :key_hash AND revoked_at IS NULL

-- name: revoke_key
-- Ends a key; a second time changes nothing.
UPDATE api_keys SET revoked_at = :now_ms WHERE id = :key_id AND revoked_at IS NULL

-- name: key_exists
-- Tells a revoked key from none.
SELECT id FROM api_keys WHERE id = :key_id

-- name: all_keys
-- For the operator's list.
SELECT id, name, role, created_at, revoked_at FROM api_keys ORDER BY id
