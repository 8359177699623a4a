-- name: insert_key
-- Stores a new key as its digest.
INSERT INTO api_keys (name, key_hash, role, grants, user_id, made_by, created_at, expires_at)
VALUES (:name, :key_hash, :role, :grants, :user_id, :made_by, :now_ms, :expires_at)
RETURNING id

-- name: find_key
-- The key, unless it was revoked or suspended or has expired, with the grants that its user has now.
SELECT k.id, k.name, k.role, k.grants, k.user_id, k.made_by, u.role AS user_role, u.grants AS user_grants
FROM api_keys k LEFT JOIN users u ON u.id = k.user_id
WHERE k.key_hash = :key_hash AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > :now_ms)
    AND k.suspended_at IS NULL AND u.suspended_at IS NULL AND u.removed_at IS NULL

-- name: revoke_key
-- Revokes a key; a second time changes nothing.
UPDATE api_keys SET revoked_at = :now_ms WHERE id = :key_id AND revoked_at IS NULL

-- name: all_keys
-- A page of all keys.
SELECT id, name, role, created_at, revoked_at, user_id, expires_at, suspended_at, grants FROM api_keys
WHERE id > :after ORDER BY id LIMIT :limit

-- name: key
-- One key.
SELECT id, name, role, created_at, revoked_at, user_id, expires_at, suspended_at, grants FROM api_keys
WHERE id = :key_id

-- name: unrevoked_of_user
-- The keys of a user who is removed.
SELECT id FROM api_keys WHERE user_id = :user_id AND revoked_at IS NULL ORDER BY id

-- name: set_grants
-- Replaces the grants of a key.
UPDATE api_keys SET role = :role, grants = :grants WHERE id = :key_id

-- name: set_suspended_at
-- Suspends a key, or ends its suspension.
UPDATE api_keys SET suspended_at = :suspended_at WHERE id = :key_id

-- name: key_of_user
-- The key, if it belongs to the user.
SELECT id, name, role, created_at, revoked_at, user_id, expires_at, suspended_at, grants FROM api_keys
WHERE id = :key_id AND user_id = :user_id

-- name: keys_of_user
-- A page of the user's keys.
SELECT id, name, role, created_at, revoked_at, user_id, expires_at, suspended_at, grants FROM api_keys
WHERE user_id = :user_id AND id > :after ORDER BY id LIMIT :limit
