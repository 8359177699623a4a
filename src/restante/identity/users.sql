-- name: insert_user
-- Adds a person; answers nothing if the e-mail is taken.
INSERT INTO users (email, password_hash, role, created_at)
VALUES (:email, :password_hash, :role, :now_ms)
ON CONFLICT (email) DO NOTHING
RETURNING id

-- name: user_by_email
-- For signing in.
SELECT id, email, password_hash, role, created_at FROM users WHERE email = :email

-- name: user_by_id
-- For showing whose something is.
SELECT id, email, password_hash, role, created_at FROM users WHERE id = :user_id

-- name: all_users
-- For the operator's list.
SELECT id, email, password_hash, role, created_at FROM users ORDER BY id

-- name: set_password
-- A new password for a person.
UPDATE users SET password_hash = :password_hash WHERE id = :user_id

-- name: end_sessions
-- Whoever is signed in with the old password no longer is.
DELETE FROM sessions WHERE user_id = :user_id
