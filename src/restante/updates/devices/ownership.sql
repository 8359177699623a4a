-- name: find_device
-- The device, if it belongs to the user.
SELECT id, device_keyfp, revoked_at FROM user_devices WHERE id = :device_id AND user_id = :user_id
