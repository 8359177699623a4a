-- name: insert_code
-- The proof that a person let a device in.
INSERT INTO registration_codes (code_hash, user_id, created_at, expires_at)
VALUES (:code_hash, :user_id, :now_ms, :expires_at)

-- name: redeem
-- Once, and in time; whose it was.
UPDATE registration_codes SET used_at = :now_ms
WHERE code_hash = :code_hash AND used_at IS NULL AND expires_at > :now_ms
RETURNING user_id

-- name: delete_expired
-- Clears codes nobody can use any more.
DELETE FROM registration_codes WHERE expires_at <= :now_ms
