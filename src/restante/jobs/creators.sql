-- name: person
-- The grants of a person who was neither suspended nor removed.
SELECT role, grants FROM users WHERE id = :person_id AND suspended_at IS NULL AND removed_at IS NULL

-- name: key
-- The grants of a key that was neither revoked nor suspended and has not expired, and those of its user, if it has one.
SELECT k.role, k.grants, k.user_id, u.role AS user_role, u.grants AS user_grants
FROM api_keys k LEFT JOIN users u ON u.id = k.user_id
WHERE k.id = :key_id AND k.revoked_at IS NULL AND k.suspended_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > :now_ms) AND u.suspended_at IS NULL AND u.removed_at IS NULL
