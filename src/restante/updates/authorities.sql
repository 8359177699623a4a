-- name: add
-- A new authority.
INSERT INTO certificate_authorities
    (user_id, name, common_name, algorithm, key_size, curve_name, serial, valid_days, not_before, not_after,
     certificate_der, sealed_key, created_at)
VALUES (:user_id, :name, :common_name, :algorithm, :key_size, :curve_name, :serial, :valid_days, :not_before,
        :not_after, :certificate_der, :sealed_key, :now_ms)
RETURNING id

-- name: get
-- An authority, if it is this user's.
SELECT a.*,
       (SELECT count(*) FROM device_cas c JOIN user_devices d ON d.id = c.device_id
        WHERE c.ca_id = a.id AND d.revoked_at IS NULL) AS devices_count
FROM certificate_authorities a WHERE a.id = :ca_id AND a.user_id = :user_id

-- name: list_of_user
-- A user's authorities, a page of them.
SELECT a.*,
       (SELECT count(*) FROM device_cas c JOIN user_devices d ON d.id = c.device_id
        WHERE c.ca_id = a.id AND d.revoked_at IS NULL) AS devices_count
FROM certificate_authorities a WHERE a.user_id = :user_id AND a.id > :after ORDER BY a.id LIMIT :limit

-- name: revoke
-- Ends an authority that is active; its key is of no use to anybody any more.
UPDATE certificate_authorities SET status = 'revoked', revoked_at = :now_ms, sealed_key = NULL
WHERE id = :ca_id AND status = 'active'

-- name: active_holders
-- The devices to tell about a change of the authority; a revoked device is told nothing.
SELECT c.device_id FROM device_cas c JOIN user_devices d ON d.id = c.device_id
WHERE c.ca_id = :ca_id AND d.revoked_at IS NULL ORDER BY c.device_id

-- name: unassign_everywhere
-- Takes a revoked authority from all devices.
DELETE FROM device_cas WHERE ca_id = :ca_id

-- name: assign
-- Gives the authority to a device; changes nothing where the device has it.
INSERT INTO device_cas (device_id, ca_id, assigned_at) VALUES (:device_id, :ca_id, :now_ms)
ON CONFLICT (device_id, ca_id) DO NOTHING

-- name: unassign
-- Takes the authority from a device.
DELETE FROM device_cas WHERE device_id = :device_id AND ca_id = :ca_id

-- name: assignment
-- One authority of a device, as operators see it.
SELECT c.device_id, c.ca_id, c.assigned_at, a.name, a.serial
FROM device_cas c JOIN certificate_authorities a ON a.id = c.ca_id
WHERE c.device_id = :device_id AND c.ca_id = :ca_id

-- name: list_of_device
-- A device's authorities, a page of them.
SELECT c.device_id, c.ca_id, c.assigned_at, a.name, a.serial
FROM device_cas c JOIN certificate_authorities a ON a.id = c.ca_id
WHERE c.device_id = :device_id AND c.ca_id > :after ORDER BY c.ca_id LIMIT :limit

-- name: of_device
-- An authority, if it is assigned to this device.
SELECT a.* FROM certificate_authorities a JOIN device_cas c ON c.ca_id = a.id
WHERE a.id = :ca_id AND c.device_id = :device_id
