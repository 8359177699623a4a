-- name: rollouts
-- A page of rollouts, newest first.
SELECT * FROM rollouts
WHERE id < :before AND (CAST(:state AS TEXT) IS NULL OR state = :state) ORDER BY id DESC LIMIT :limit

-- name: jobs
-- The jobs of a rollout: of its waves, and of its roll-back, which has wave 0.
SELECT * FROM jobs WHERE rollout = :rollout ORDER BY wave
