-- name: insert_rollout
-- Adds a rollout.
INSERT INTO rollouts
    (rollout_id, name, area, target, action, filter, params, sealed_params, created_by, identities, person_id, key_id,
     role, scope, created_at, state, rate_per_second, total, waves, success_percent, error_percent, min_wave_seconds,
     max_wave_seconds, is_boosting, check_at)
VALUES
    (:rollout_id, :name, :area, :target, :action, :filter, :params, :sealed_params, :created_by, :identities,
     :person_id, :key_id, :role, :scope, :now_ms, :state, :rate_per_second, :total, :waves, :success_percent,
     :error_percent, :min_wave_seconds, :max_wave_seconds, :is_boosting, :now_ms)

-- name: rollout
-- One rollout.
SELECT * FROM rollouts WHERE rollout_id = :rollout_id

-- name: jobs
-- The jobs of a rollout: of its waves, and of its roll-back, which has wave 0.
SELECT * FROM jobs WHERE rollout = :rollout ORDER BY wave

-- name: job_of_wave
-- The job of a wave.
SELECT * FROM jobs WHERE rollout = :rollout AND wave = :wave

-- name: set_state
-- Changes the state of a rollout.
UPDATE rollouts SET state = :state, reason = :reason, finished_at = :finished_at, check_at = :now_ms WHERE id = :id

-- name: set_wave
-- Begins a wave.
UPDATE rollouts
SET wave = :wave, wave_started_at = :now_ms, accepted_failures = 0, check_at = :now_ms WHERE id = :id

-- name: accept_failures
-- An operator goes on with the failures of the current wave.
UPDATE rollouts SET accepted_failures = :failures, wave_started_at = :now_ms WHERE id = :id

-- name: approve
-- A second person has approved the rollout.
UPDATE rollouts SET state = 'running', approved_by = :actor, check_at = :now_ms WHERE id = :id

-- name: set_roll_back_job
-- Records the job that undoes the rollout.
UPDATE rollouts SET roll_back_job = :job WHERE id = :id

-- name: open_counts
-- How many rollouts have not ended, by state.
SELECT state, COUNT(*) AS rollouts FROM rollouts WHERE finished_at IS NULL GROUP BY state

-- name: old_rollout
-- A rollout that ended long ago.
SELECT id FROM rollouts WHERE finished_at IS NOT NULL AND finished_at < :before_ms ORDER BY finished_at LIMIT 1

-- name: release_jobs
-- The jobs of a deleted rollout are deleted like others.
UPDATE jobs SET rollout = NULL, wave = NULL WHERE rollout = :id

-- name: delete_rollout
-- Deletes a rollout.
DELETE FROM rollouts WHERE id = :id

-- name: change
-- Changes the name and the thresholds of a rollout.
UPDATE rollouts
SET name = :name, success_percent = :success_percent, error_percent = :error_percent,
    min_wave_seconds = :min_wave_seconds, max_wave_seconds = :max_wave_seconds
WHERE id = :id
