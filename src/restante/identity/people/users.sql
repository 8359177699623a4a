-- name: insert_user
-- Adds a user; returns no row if the e-mail is taken.
INSERT INTO users (email, password_hash, role, grants, created_at)
VALUES (:email, :password_hash, :role, :grants, :now_ms)
ON CONFLICT (email) DO NOTHING
RETURNING id

-- name: user_by_email
-- For sign-in.
SELECT id, email, password_hash, role, grants, created_at, suspended_at, removed_at FROM users WHERE email = :email

-- name: user_by_id
-- For showing the owner of something.
SELECT id, email, password_hash, role, grants, created_at, suspended_at, removed_at FROM users WHERE id = :user_id

-- name: users_after
-- A page of the users who were not removed.
SELECT id, email, password_hash, role, grants, created_at, suspended_at, removed_at FROM users
WHERE id > :after AND removed_at IS NULL ORDER BY id LIMIT :limit

-- name: set_password
-- Sets a user's new password.
UPDATE users SET password_hash = :password_hash WHERE id = :user_id

-- name: end_sessions
-- Ends every session of a user.
DELETE FROM sessions WHERE user_id = :user_id

-- name: other_admins
-- The grants of the other users with the role admin who can sign in.
SELECT role, grants FROM users
WHERE role = 'admin' AND id <> :user_id AND suspended_at IS NULL AND removed_at IS NULL AND password_hash <> ''

-- name: set_grants
-- Replaces the grants of a user.
UPDATE users SET role = :role, grants = :grants WHERE id = :user_id

-- name: set_suspended_at
-- Suspends a user, or ends the suspension.
UPDATE users SET suspended_at = :suspended_at WHERE id = :user_id

-- name: remove_user
-- Keeps the row for what the user owns; the empty password hash verifies no password.
UPDATE users SET email = :email, password_hash = '', removed_at = :now_ms WHERE id = :user_id

-- name: end_registration_codes
-- Codes that the user gave to devices and that no device has used.
DELETE FROM registration_codes WHERE user_id = :user_id AND used_at IS NULL

-- name: end_device_codes
-- Devices that the user approved and that have not fetched their tokens.
UPDATE device_codes SET status = 'denied' WHERE user_id = :user_id AND status = 'approved'

-- name: forget_known_addresses
-- A person who knew the old password may have signed in from these.
DELETE FROM known_addresses WHERE user_id = :user_id

-- name: forget_saved_filters
-- The filters that the user has saved in the console.
DELETE FROM saved_filters WHERE user_id = :user_id

-- name: end_invitation
-- The code of an invitation that the user has not accepted.
DELETE FROM invitations WHERE user_id = :user_id
