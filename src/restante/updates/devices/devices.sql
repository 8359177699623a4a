-- name: device_by_public_id
-- The user's device, if it was registered before.
SELECT * FROM user_devices WHERE user_id = :user_id AND device_public_id = :device_public_id

-- name: by_public_id
-- Devices of several users may have the same public id.
SELECT * FROM user_devices WHERE device_public_id = :device_public_id ORDER BY id LIMIT :limit

-- name: insert_device
-- Stores a device at its first registration.
INSERT INTO user_devices
    (user_id, device_public_id, dev_pk, device_keyfp, platform, model, app_version, name, ip, user_agent,
     created_at, updated_at)
VALUES
    (:user_id, :device_public_id, :dev_pk, :device_keyfp, COALESCE(:platform, ''), COALESCE(:model, ''),
     COALESCE(:app_version, ''), COALESCE(:name, ''), COALESCE(:ip, ''), COALESCE(:user_agent, ''),
     :now_ms, :now_ms)
RETURNING *

-- name: update_device
-- Updates a device that registers again; values that it does not give stay unchanged.
UPDATE user_devices SET
    dev_pk = :dev_pk, device_keyfp = :device_keyfp, platform = COALESCE(:platform, platform),
    model = COALESCE(:model, model), app_version = COALESCE(:app_version, app_version),
    name = COALESCE(:name, name), ip = COALESCE(:ip, ip), user_agent = COALESCE(:user_agent, user_agent),
    updated_at = :now_ms
WHERE id = :device_id
RETURNING *

-- name: device
-- One device.
SELECT * FROM user_devices WHERE id = :device_id

-- name: page_of_user
-- A page of a user's devices.
SELECT * FROM user_devices WHERE user_id = :user_id AND id > :after ORDER BY id LIMIT :limit

-- name: page_of_all
-- A page of all users' devices.
SELECT * FROM user_devices WHERE id > :after ORDER BY id LIMIT :limit

-- name: revoke_device
-- Revokes a device, once; there is no way back.
UPDATE user_devices SET revoked_at = :now_ms, updated_at = :now_ms WHERE id = :device_id AND revoked_at IS NULL
