-- name: insert_family
-- The first token of a device's new session.
INSERT INTO refresh_families (family_hash, counter, user_id, device_id, created_at, rotated_at, expires_at)
VALUES (:family_hash, :counter, :user_id, :device_id, :now_ms, :now_ms, :expires_at)

-- name: find_family
-- What a shown token belongs to.
SELECT counter, user_id, device_id, expires_at, revoked_at, end_reason
FROM refresh_families WHERE family_hash = :family_hash

-- name: find_family@postgres
-- Several may show its tokens at once: the second sees what the first has made of it.
SELECT counter, user_id, device_id, expires_at, revoked_at, end_reason
FROM refresh_families WHERE family_hash = :family_hash FOR UPDATE

-- name: advance
-- Lets one of several that show the same token win: the others find a higher number. A lower one is that of a
-- database restored from a backup, which catches up with the device.
UPDATE refresh_families
SET counter = :counter + 1, rotated_at = :now_ms, expires_at = :expires_at
WHERE family_hash = :family_hash AND counter <= :counter AND revoked_at IS NULL

-- name: end_family
-- A token was used twice: nobody can say who of the two is the thief.
UPDATE refresh_families SET revoked_at = :now_ms, end_reason = :end_reason
WHERE family_hash = :family_hash AND revoked_at IS NULL

-- name: end_families_of_device
-- When the device is revoked or gets a new session.
UPDATE refresh_families SET revoked_at = :now_ms, end_reason = :end_reason
WHERE device_id = :device_id AND revoked_at IS NULL

-- name: delete_expired
-- Clears families whose newest token has expired.
DELETE FROM refresh_families WHERE expires_at <= :now_ms
