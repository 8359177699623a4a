-- name: insert_session
-- Starts a session.
INSERT INTO sessions (token_hash, user_id, created_at, expires_at, confirmed_at)
VALUES (:token_hash, :user_id, :now_ms, :expires_at, :now_ms)

-- name: find_session
-- The person of an unexpired session, unless the person was suspended or removed.
SELECT users.id, users.email, users.role, users.grants
FROM sessions JOIN users ON users.id = sessions.user_id
WHERE sessions.token_hash = :token_hash AND sessions.expires_at > :now_ms
    AND users.suspended_at IS NULL AND users.removed_at IS NULL

-- name: confirmed_at
-- When the person of the session last gave the password.
SELECT confirmed_at FROM sessions WHERE token_hash = :token_hash

-- name: confirm
-- The person of the session gave the password again.
UPDATE sessions SET confirmed_at = :now_ms WHERE token_hash = :token_hash

-- name: delete_session
-- Ends a session.
DELETE FROM sessions WHERE token_hash = :token_hash

-- name: delete_expired
-- Deletes expired sessions.
DELETE FROM sessions WHERE expires_at <= :now_ms
