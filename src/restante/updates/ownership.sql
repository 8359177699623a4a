-- name: find_device
-- A device, if it is this user's.
SELECT id, device_keyfp, revoked_at FROM user_devices WHERE id = :device_id AND user_id = :user_id
