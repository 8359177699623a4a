-- name: has_due
-- Whether a job that no node runs has a batch to run now.
SELECT 1 FROM jobs
WHERE (state = 'queued' OR state = 'running') AND run_at <= :now_ms
  AND (lease_until IS NULL OR lease_until <= :now_ms) LIMIT 1

-- name: due
-- Jobs that no node runs, the one that waits longest first.
SELECT id FROM jobs
WHERE (state = 'queued' OR state = 'running') AND run_at <= :now_ms
  AND (lease_until IS NULL OR lease_until <= :now_ms)
ORDER BY run_at, id LIMIT :limit

-- name: lease
-- Leases a job to a runner.
UPDATE jobs SET lease_owner = :owner, lease_until = :lease_until WHERE id = :id

-- name: next_due
-- When the next job that no node runs is due.
SELECT MIN(CASE WHEN lease_until > run_at THEN lease_until ELSE run_at END) AS due_at FROM jobs
WHERE state = 'queued' OR state = 'running'

-- name: held
-- The job, if this runner has its lease and it may run.
SELECT * FROM jobs
WHERE id = :id AND lease_owner = :owner AND lease_until > :now_ms AND (state = 'queued' OR state = 'running')

-- name: advance
-- Moves a job forward and extends the lease.
UPDATE jobs
SET state = 'running', after_id = :after_id, done = done + :done, failed = failed + :failed,
    skipped = skipped + :skipped, run_at = :run_at, lease_until = :lease_until,
    started_at = COALESCE(started_at, :now_ms)
WHERE id = :id

-- name: insert_item
-- Adds the result of an item.
INSERT INTO job_items (job, item, state, ref, result, error, at)
VALUES (:job, :item, :state, :ref, :result, :error, :now_ms)

-- name: release
-- Gives a lease back.
UPDATE jobs SET lease_owner = NULL, lease_until = NULL WHERE lease_owner = :owner

-- name: release_all
-- Ends all leases: no runner can be alive.
UPDATE jobs SET lease_owner = NULL, lease_until = NULL WHERE lease_owner IS NOT NULL

-- name: in_earlier_wave
-- Which of these items another wave of the rollout has acted on.
SELECT i.item FROM job_items i JOIN jobs j ON j.id = i.job
WHERE i.item IN (SELECT value FROM json_each(:ids)) AND j.rollout = :rollout AND j.wave > 0
