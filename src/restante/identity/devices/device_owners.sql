-- name: active_device_of
-- The device, if it belongs to the user and is not revoked.
SELECT id, token_generation FROM user_devices WHERE id = :device_id AND user_id = :user_id AND revoked_at IS NULL

-- name: active_devices
-- Those of the devices that are not revoked, and their users.
SELECT id, user_id, token_generation FROM user_devices
WHERE id IN (SELECT value FROM json_each(:devices)) AND revoked_at IS NULL

-- name: next_token_generation
-- Access tokens of earlier generations no longer count.
UPDATE user_devices SET token_generation = token_generation + 1 WHERE id = :device_id
