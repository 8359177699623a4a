-- name: pending_batch
-- Pending wraps of issued certificates for devices that are not revoked.
SELECT c.cert_record_id, c.device_id, r.issue_number, r.serial, r.sealed_data_key, d.dev_pk
FROM cert_record_devices c
JOIN cert_records r ON r.id = c.cert_record_id
JOIN user_devices d ON d.id = c.device_id
WHERE c.enc_data_key = :pending
  AND (c.cert_record_id, c.device_id) > (:after_cert, :after_device)
  AND r.status = 'issued' AND d.revoked_at IS NULL
ORDER BY c.cert_record_id, c.device_id LIMIT :limit

-- name: store_wrap
-- Compare and set: only over the sentinel, for the wrapped issue and the device key it was wrapped for.
UPDATE cert_record_devices
SET enc_data_key = :enc_data_key, device_keyfp = :device_keyfp, wrap_alg = :wrap_alg
WHERE cert_record_id = :cert_id AND device_id = :device_id AND enc_data_key = :pending
  AND EXISTS (SELECT 1 FROM cert_records r
              WHERE r.id = :cert_id AND r.status = 'issued' AND r.issue_number = :issue_number)
  AND EXISTS (SELECT 1 FROM user_devices d
              WHERE d.id = :device_id AND d.dev_pk = :dev_pk AND d.revoked_at IS NULL)

-- name: store_wrap@postgres
-- On PostgreSQL a concurrent transaction may issue the certificate again or register the device with another key: lock
-- both rows first, and compare with their current values.
WITH issued AS (
    SELECT id FROM cert_records
    WHERE id = :cert_id AND status = 'issued' AND issue_number = :issue_number FOR SHARE
), holder AS (
    SELECT id FROM user_devices WHERE id = :device_id AND dev_pk = :dev_pk AND revoked_at IS NULL FOR NO KEY UPDATE
)
UPDATE cert_record_devices
SET enc_data_key = :enc_data_key, device_keyfp = :device_keyfp, wrap_alg = :wrap_alg
FROM issued, holder
WHERE cert_record_id = issued.id AND device_id = holder.id AND enc_data_key = :pending
