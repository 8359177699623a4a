-- name: device_by_public_id
-- The user's device, if it was registered before.
SELECT d.*, p.last_seen_at FROM user_devices AS d LEFT JOIN device_presence AS p ON p.device_id = d.id
WHERE d.user_id = :user_id AND d.device_public_id = :device_public_id

-- name: insert_device
-- Stores a device at its first registration.
INSERT INTO user_devices
    (user_id, device_public_id, dev_pk, device_keyfp, platform, model, app_version, name, ip, user_agent,
     created_at, updated_at)
VALUES
    (:user_id, :device_public_id, :dev_pk, :device_keyfp, COALESCE(:platform, ''), COALESCE(:model, ''),
     COALESCE(:app_version, ''), COALESCE(:name, ''), COALESCE(:ip, ''), COALESCE(:user_agent, ''),
     :now_ms, :now_ms)
RETURNING id

-- name: update_device
-- Updates a device that registers again; values that it does not give stay unchanged.
UPDATE user_devices SET
    dev_pk = :dev_pk, device_keyfp = :device_keyfp, platform = COALESCE(:platform, platform),
    model = COALESCE(:model, model), app_version = COALESCE(:app_version, app_version),
    name = COALESCE(:name, name), ip = COALESCE(:ip, ip), user_agent = COALESCE(:user_agent, user_agent),
    updated_at = :now_ms
WHERE id = :device_id

-- name: device
-- One device.
SELECT d.*, p.last_seen_at FROM user_devices AS d LEFT JOIN device_presence AS p ON p.device_id = d.id
WHERE d.id = :device_id

-- name: page_of_user
-- A page of a user's devices.
SELECT d.*, p.last_seen_at FROM user_devices AS d LEFT JOIN device_presence AS p ON p.device_id = d.id
WHERE d.user_id = :user_id AND d.id > :after ORDER BY d.id LIMIT :limit

-- name: page_of_all
-- A page of all users' devices.
SELECT d.*, p.last_seen_at FROM user_devices AS d LEFT JOIN device_presence AS p ON p.device_id = d.id
WHERE d.id > :after ORDER BY d.id LIMIT :limit

-- name: revoke_device
-- Revokes a device, once; there is no way back.
UPDATE user_devices SET revoked_at = :now_ms, updated_at = :now_ms WHERE id = :device_id AND revoked_at IS NULL

-- name: insert_presence
-- A new device has some time for its first poll.
INSERT INTO device_presence (device_id, overdue_at) VALUES (:device_id, :overdue_at) ON CONFLICT DO NOTHING

-- name: clear_overdue
-- A revoked device is not expected any more.
UPDATE device_presence SET overdue_at = NULL WHERE device_id = :device_id
