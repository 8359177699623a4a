-- name: insert_session
-- Begins a session.
INSERT INTO sessions (token_hash, user_id, created_at, expires_at)
VALUES (:token_hash, :user_id, :now_ms, :expires_at)

-- name: find_session
-- Who has this session, while it lasts.
SELECT users.id, users.email, users.role
FROM sessions JOIN users ON users.id = sessions.user_id
WHERE sessions.token_hash = :token_hash AND sessions.expires_at > :now_ms

-- name: delete_session
-- Ends a session.
DELETE FROM sessions WHERE token_hash = :token_hash

-- name: delete_expired
-- Clears sessions nobody can use any more.
DELETE FROM sessions WHERE expires_at <= :now_ms
