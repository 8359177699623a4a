-- name: set_rollout
-- Makes the whole fleet poll faster until a time.
INSERT INTO rollout (id, until_at, interval_seconds) VALUES (1, :until_at, :interval_seconds)
ON CONFLICT (id) DO UPDATE SET until_at = excluded.until_at, interval_seconds = excluded.interval_seconds

-- name: clear_rollout
-- Ends the rollout.
DELETE FROM rollout WHERE id = 1

-- name: current_rollout
-- The current rollout.
SELECT until_at, interval_seconds FROM rollout WHERE id = 1 AND until_at > :now_ms
