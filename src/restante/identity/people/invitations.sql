-- name: put
-- Gives the person an invitation, in place of the one before.
INSERT INTO invitations (user_id, code_hash, created_at, expires_at)
VALUES (:user_id, :code_hash, :now_ms, :expires_at)
ON CONFLICT (user_id) DO UPDATE
SET code_hash = excluded.code_hash, created_at = excluded.created_at, expires_at = excluded.expires_at

-- name: find
-- Whether there is an unexpired invitation with this code.
SELECT user_id FROM invitations WHERE code_hash = :code_hash AND expires_at > :now_ms

-- name: use_up
-- Uses the invitation; returns no row if there is none, or another transaction has used it.
DELETE FROM invitations WHERE code_hash = :code_hash AND expires_at > :now_ms RETURNING user_id

-- name: of_person
-- Until when the person can use the invitation.
SELECT expires_at FROM invitations WHERE user_id = :user_id AND expires_at > :now_ms

-- name: delete_expired
-- Deletes expired invitations.
DELETE FROM invitations WHERE expires_at <= :now_ms
