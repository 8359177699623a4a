-- name: insert_code
-- Stores the proof that a person approved a device.
INSERT INTO registration_codes (code_hash, user_id, created_at, expires_at)
VALUES (:code_hash, :user_id, :now_ms, :expires_at)

-- name: redeem
-- Uses the code, once and before it expires; returns its user.
UPDATE registration_codes SET used_at = :now_ms
WHERE code_hash = :code_hash AND used_at IS NULL AND expires_at > :now_ms
RETURNING user_id

-- name: delete_expired
-- Deletes expired codes.
DELETE FROM registration_codes WHERE expires_at <= :now_ms
