-- name: used
-- The timestamps of a device's signals of one type, from a timestamp on.
SELECT ts_ms FROM device_update_log WHERE device_id = :device_id AND type = :type AND ts_ms >= :from_ms
ORDER BY ts_ms LIMIT :limit
