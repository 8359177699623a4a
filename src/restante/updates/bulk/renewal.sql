-- name: certificates
-- The issued certificates of these devices that were not issued again since the job was created.
SELECT c.device_id, r.id, r.user_id FROM cert_record_devices c JOIN cert_records r ON r.id = c.cert_record_id
WHERE c.device_id IN (SELECT value FROM json_each(:ids)) AND r.status = 'issued' AND r.updated_at <= :issued_before
  AND (CAST(:ends_before AS BIGINT) IS NULL OR r.not_after < :ends_before)
ORDER BY c.device_id, r.id
