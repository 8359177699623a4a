-- name: set_boost
-- Makes the whole fleet poll faster until a time.
INSERT INTO poll_boost (id, until_at, interval_seconds) VALUES (1, :until_at, :interval_seconds)
ON CONFLICT (id) DO UPDATE SET until_at = excluded.until_at, interval_seconds = excluded.interval_seconds

-- name: clear_boost
-- Ends the poll boost.
DELETE FROM poll_boost WHERE id = 1

-- name: current_boost
-- The current poll boost.
SELECT until_at, interval_seconds FROM poll_boost WHERE id = 1 AND until_at > :now_ms
