-- name: newest
-- The newest device.
SELECT MAX(id) AS id FROM user_devices

-- name: devices
-- Owners of devices, and whether they were revoked.
SELECT id, user_id, device_public_id, revoked_at FROM user_devices WHERE id IN (SELECT value FROM json_each(:ids))
