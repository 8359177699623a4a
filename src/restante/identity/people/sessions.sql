-- name: insert_session
-- Starts a session.
INSERT INTO sessions (token_hash, user_id, created_at, expires_at)
VALUES (:token_hash, :user_id, :now_ms, :expires_at)

-- name: find_session
-- The person of an unexpired session, unless the person was suspended or removed.
SELECT users.id, users.email, users.role, users.grants
FROM sessions JOIN users ON users.id = sessions.user_id
WHERE sessions.token_hash = :token_hash AND sessions.expires_at > :now_ms
    AND users.suspended_at IS NULL AND users.removed_at IS NULL

-- name: delete_session
-- Ends a session.
DELETE FROM sessions WHERE token_hash = :token_hash

-- name: delete_expired
-- Deletes expired sessions.
DELETE FROM sessions WHERE expires_at <= :now_ms
