-- name: failed_after
-- The next FAILED rows that match the filter.
SELECT id FROM device_update_outbox
WHERE status = 'FAILED' AND id > :after
  AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id)
  AND (CAST(:event_kind AS TEXT) IS NULL OR event_kind = :event_kind)
  AND (CAST(:failure AS TEXT) IS NULL OR REPLACE(failure_reason, :failure, '') <> failure_reason)
  AND (CAST(:created_after AS BIGINT) IS NULL OR created_at >= :created_after)
  AND (CAST(:created_before AS BIGINT) IS NULL OR created_at < :created_before)
  AND (CAST(:users AS TEXT) IS NULL OR device_id IN (
    SELECT d.id FROM user_devices AS d WHERE d.user_id IN (SELECT value FROM json_each(:users))))
ORDER BY id LIMIT :limit

-- name: count
-- How many FAILED rows match the filter.
SELECT COUNT(*) AS rows FROM device_update_outbox
WHERE status = 'FAILED'
  AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id)
  AND (CAST(:event_kind AS TEXT) IS NULL OR event_kind = :event_kind)
  AND (CAST(:failure AS TEXT) IS NULL OR REPLACE(failure_reason, :failure, '') <> failure_reason)
  AND (CAST(:created_after AS BIGINT) IS NULL OR created_at >= :created_after)
  AND (CAST(:created_before AS BIGINT) IS NULL OR created_at < :created_before)
  AND (CAST(:users AS TEXT) IS NULL OR device_id IN (
    SELECT d.id FROM user_devices AS d WHERE d.user_id IN (SELECT value FROM json_each(:users))))

-- name: newest
-- The newest row.
SELECT MAX(id) AS id FROM device_update_outbox
