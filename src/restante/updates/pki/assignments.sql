-- name: owned_status
-- The certificate's status, if it belongs to the user.
SELECT status FROM cert_records WHERE id = :cert_id AND user_id = :user_id

-- name: assign
-- Assigns the certificate to a device with a pending wrap; changes nothing if it is assigned already.
INSERT INTO cert_record_devices (cert_record_id, device_id, device_keyfp, wrap_alg, enc_data_key, assigned_at)
VALUES (:cert_id, :device_id, :device_keyfp, :wrap_alg, :pending, :now_ms)
ON CONFLICT (cert_record_id, device_id) DO NOTHING

-- name: unassign
-- Unassigns the certificate from a device.
DELETE FROM cert_record_devices WHERE cert_record_id = :cert_id AND device_id = :device_id

-- name: unassign_everywhere
-- Unassigns a revoked certificate from all devices.
DELETE FROM cert_record_devices WHERE cert_record_id = :cert_id

-- name: reset_wraps_of_certificate
-- Drops the wraps of a data key that is no longer used.
UPDATE cert_record_devices SET enc_data_key = :pending WHERE cert_record_id = :cert_id

-- name: active_holders
-- The devices that have the certificate and are not revoked.
SELECT c.device_id FROM cert_record_devices c JOIN user_devices d ON d.id = c.device_id
WHERE c.cert_record_id = :cert_id AND d.revoked_at IS NULL ORDER BY c.device_id

-- name: assignment
-- One certificate of a device, for operators.
SELECT c.*, r.domain_name FROM cert_record_devices c JOIN cert_records r ON r.id = c.cert_record_id
WHERE c.cert_record_id = :cert_id AND c.device_id = :device_id

-- name: list_of_device
-- A page of the device's certificates.
SELECT c.*, r.domain_name FROM cert_record_devices c JOIN cert_records r ON r.id = c.cert_record_id
WHERE c.device_id = :device_id AND c.cert_record_id > :after ORDER BY c.cert_record_id LIMIT :limit

-- name: of_device
-- A certificate with the device's own wrap, if it is assigned to this device.
SELECT r.*, c.device_keyfp, c.wrap_alg, c.enc_data_key
FROM cert_record_devices c JOIN cert_records r ON r.id = c.cert_record_id
WHERE c.cert_record_id = :cert_id AND c.device_id = :device_id

-- name: reset_wraps_of_device
-- Drops the wraps for a key that the device no longer has.
UPDATE cert_record_devices SET enc_data_key = :pending, device_keyfp = :device_keyfp WHERE device_id = :device_id

-- name: lock_holders
-- The devices that have the certificate. SQLite has one writer, which needs no lock.
SELECT id FROM user_devices WHERE id IN (SELECT device_id FROM cert_record_devices WHERE cert_record_id = :cert_id)

-- name: lock_holders@postgres
-- Locks the devices, in the same order in every transaction, so that the next statement sees all their certificates.
SELECT id FROM user_devices WHERE id IN (SELECT device_id FROM cert_record_devices WHERE cert_record_id = :cert_id)
ORDER BY id FOR NO KEY UPDATE

-- name: refresh_holders
-- Computes the earliest end of their certificates for the devices that have this certificate.
UPDATE user_devices SET certificate_expires_at = (
    SELECT MIN(r.not_after) FROM cert_record_devices AS c JOIN cert_records AS r ON r.id = c.cert_record_id
    WHERE c.device_id = user_devices.id AND r.status = 'issued')
WHERE id IN (SELECT device_id FROM cert_record_devices WHERE cert_record_id = :cert_id)

-- name: refresh_without
-- The same for one device that is about to lose this certificate.
UPDATE user_devices SET certificate_expires_at = (
    SELECT MIN(r.not_after) FROM cert_record_devices AS c JOIN cert_records AS r ON r.id = c.cert_record_id
    WHERE c.device_id = user_devices.id AND r.status = 'issued' AND r.id <> :cert_id)
WHERE id = :device_id
