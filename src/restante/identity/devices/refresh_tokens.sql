-- name: insert_family
-- Stores the family of a device's new session.
INSERT INTO refresh_families (family_hash, counter, user_id, device_id, created_at, rotated_at, expires_at)
VALUES (:family_hash, :counter, :user_id, :device_id, :now_ms, :now_ms, :expires_at)

-- name: find_family
-- The family that a token belongs to.
SELECT counter, user_id, device_id, expires_at, revoked_at, end_reason
FROM refresh_families WHERE family_hash = :family_hash

-- name: find_family@postgres
-- Locked: of two concurrent exchanges the second sees the result of the first.
SELECT counter, user_id, device_id, expires_at, revoked_at, end_reason
FROM refresh_families WHERE family_hash = :family_hash FOR UPDATE

-- name: advance
-- Of several exchanges of the same token one wins: the others find a higher counter. A lower counter is that of a
-- database restored from a backup, which catches up with the device.
UPDATE refresh_families
SET counter = :counter + 1, rotated_at = :now_ms, expires_at = :expires_at
WHERE family_hash = :family_hash AND counter <= :counter AND revoked_at IS NULL

-- name: end_family
-- A token was used twice: the server cannot know which of the two users is the thief.
UPDATE refresh_families SET revoked_at = :now_ms, end_reason = :end_reason
WHERE family_hash = :family_hash AND revoked_at IS NULL

-- name: end_families_of_device
-- The device was revoked or gets a new session.
UPDATE refresh_families SET revoked_at = :now_ms, end_reason = :end_reason
WHERE device_id = :device_id AND revoked_at IS NULL

-- name: delete_expired
-- Deletes families whose newest token has expired.
DELETE FROM refresh_families WHERE expires_at <= :now_ms
