-- name: due
-- Rollouts that a node must look at now.
SELECT id, rollout_id FROM rollouts
WHERE (state = 'running' OR state = 'rolling_back') AND check_at <= :now_ms ORDER BY check_at LIMIT :limit

-- name: check_later
-- When a node looks at a rollout next.
UPDATE rollouts SET check_at = :check_at WHERE id = :id

-- name: job_of_wave
-- The job of a wave.
SELECT * FROM jobs WHERE rollout = :rollout AND wave = :wave
