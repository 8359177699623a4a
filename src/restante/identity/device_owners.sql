-- name: active_device_of
-- Whether the device is this user's and may call.
SELECT id FROM user_devices WHERE id = :device_id AND user_id = :user_id AND revoked_at IS NULL
