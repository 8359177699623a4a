-- name: add
-- Stores a new authority.
INSERT INTO certificate_authorities
    (user_id, name, common_name, algorithm, key_size, curve_name, serial, valid_days, not_before, not_after,
     certificate_der, sealed_key, created_at)
VALUES (:user_id, :name, :common_name, :algorithm, :key_size, :curve_name, :serial, :valid_days, :not_before,
        :not_after, :certificate_der, :sealed_key, :now_ms)
RETURNING id

-- name: set_expiry_key
-- Puts a new authority into the list by expiry.
UPDATE certificate_authorities SET expiry_key = not_after / 1000 * 16777216 + id % 16777216 WHERE id = :ca_id

-- name: get
-- The authority, if it belongs to the user.
SELECT a.*,
       (SELECT count(*) FROM device_cas c JOIN user_devices d ON d.id = c.device_id
        WHERE c.ca_id = a.id AND d.revoked_at IS NULL) AS devices_count
FROM certificate_authorities a WHERE a.id = :ca_id AND a.user_id = :user_id

-- name: list_of_user
-- A page of the user's authorities.
SELECT a.*,
       (SELECT count(*) FROM device_cas c JOIN user_devices d ON d.id = c.device_id
        WHERE c.ca_id = a.id AND d.revoked_at IS NULL) AS devices_count
FROM certificate_authorities a WHERE a.user_id = :user_id AND a.id > :after ORDER BY a.id LIMIT :limit

-- name: revoke
-- Revokes an active authority and drops its key, which is no longer needed.
UPDATE certificate_authorities SET status = 'revoked', revoked_at = :now_ms, sealed_key = NULL, expiry_key = NULL
WHERE id = :ca_id AND status = 'active'

-- name: active_holders
-- The devices that get a signal when the authority changes; a revoked device gets none.
SELECT c.device_id FROM device_cas c JOIN user_devices d ON d.id = c.device_id
WHERE c.ca_id = :ca_id AND d.revoked_at IS NULL ORDER BY c.device_id

-- name: unassign_everywhere
-- Unassigns a revoked authority from all devices.
DELETE FROM device_cas WHERE ca_id = :ca_id

-- name: assign
-- Assigns the authority to a device; changes nothing if it is assigned already.
INSERT INTO device_cas (device_id, ca_id, assigned_at) VALUES (:device_id, :ca_id, :now_ms)
ON CONFLICT (device_id, ca_id) DO NOTHING

-- name: unassign
-- Unassigns the authority from a device.
DELETE FROM device_cas WHERE device_id = :device_id AND ca_id = :ca_id

-- name: assignment
-- One authority of a device, for operators.
SELECT c.device_id, c.ca_id, c.assigned_at, a.name, a.serial
FROM device_cas c JOIN certificate_authorities a ON a.id = c.ca_id
WHERE c.device_id = :device_id AND c.ca_id = :ca_id

-- name: list_of_device
-- A page of the device's authorities.
SELECT c.device_id, c.ca_id, c.assigned_at, a.name, a.serial
FROM device_cas c JOIN certificate_authorities a ON a.id = c.ca_id
WHERE c.device_id = :device_id AND c.ca_id > :after ORDER BY c.ca_id LIMIT :limit

-- name: of_device
-- The authority, if it is assigned to the device.
SELECT a.* FROM certificate_authorities a JOIN device_cas c ON c.ca_id = a.id
WHERE a.id = :ca_id AND c.device_id = :device_id
