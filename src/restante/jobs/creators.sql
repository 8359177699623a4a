-- name: person
-- The grants of a person who was neither suspended nor removed.
SELECT role, grants FROM users WHERE id = :person_id AND suspended_at IS NULL AND removed_at IS NULL

-- name: key
-- The grants of a key that was neither revoked nor suspended and has not expired.
SELECT role, grants FROM api_keys
WHERE id = :key_id AND revoked_at IS NULL AND suspended_at IS NULL AND user_id IS NULL
  AND (expires_at IS NULL OR expires_at > :now_ms)
