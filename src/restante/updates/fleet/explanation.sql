-- name: newest_failed
-- The newest signal of a device that could not be published.
SELECT failure_reason FROM device_update_outbox
WHERE status = 'FAILED' AND device_id = :device_id ORDER BY id DESC LIMIT 1

-- name: oldest_pending
-- The signal of a device that is published next.
SELECT created_at, next_attempt_at, failure_reason FROM device_update_outbox
WHERE status = 'PENDING' AND device_id = :device_id ORDER BY id LIMIT 1

-- name: pending_wrap
-- A certificate of the device whose key it cannot use yet.
SELECT r.id, r.domain_name, r.status FROM cert_record_devices AS c JOIN cert_records AS r ON r.id = c.cert_record_id
WHERE c.device_id = :device_id AND c.enc_data_key = :pending ORDER BY r.id LIMIT 1
