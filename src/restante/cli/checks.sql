-- name: quick_check
-- Whether the pages of the file are whole: "ok", or what is wrong with them.
PRAGMA quick_check(5)

-- name: journal_mode
-- How commits are written; it must be "wal" for readers and the writer not to wait for one another.
PRAGMA journal_mode

-- name: newest_signal
-- When the newest signal of any device was published; later than now means that the clock went back.
SELECT MAX(newest_ms) AS newest_ms FROM device_update_heads

-- name: oldest_unsigned
-- Since when the oldest event waits to be signed.
SELECT created_at FROM event_inbox WHERE status = 'unsigned' ORDER BY created_at LIMIT 1

-- name: errored_events
-- How many events clients could not use.
SELECT count(*) AS count FROM event_inbox WHERE status = 'errored'
