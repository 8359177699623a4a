-- name: quick_check
-- Check the pages of the file: "ok", or the problems.
PRAGMA quick_check(5)

-- name: journal_mode
-- The journal mode. It must be "wal", so that readers and the writer do not block each other.
PRAGMA journal_mode

-- name: newest_signal
-- The time of the newest signal of any device. A time in the future means that the clock went back.
SELECT MAX(newest_ms) AS newest_ms FROM device_update_heads

-- name: oldest_unsigned
-- The creation time of the oldest unsigned event.
SELECT created_at FROM event_inbox WHERE status = 'unsigned' ORDER BY created_at LIMIT 1

-- name: errored_events
-- The number of errored events.
SELECT count(*) AS count FROM event_inbox WHERE status = 'errored'
