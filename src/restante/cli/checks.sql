-- name: quick_check
-- Whether the pages of the file are whole: "ok", or what is wrong with them.
PRAGMA quick_check(5)

-- name: journal_mode
-- How commits are written; it must be "wal" for readers and the writer not to wait for one another.
PRAGMA journal_mode

-- name: newest_signal
-- When the newest signal of any device was published; later than now means that the clock went back.
SELECT MAX(newest_ms) AS newest_ms FROM device_update_heads
