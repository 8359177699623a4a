-- name: last_seen
-- Moves a device's last-seen time forward, never back.
UPDATE user_devices SET last_seen_at = :seen_ms
WHERE id = :device_id AND (last_seen_at IS NULL OR last_seen_at < :seen_ms)
