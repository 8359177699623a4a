-- name: insert_job
-- Adds a job.
INSERT INTO jobs
    (job_id, area, target, action, filter, params, sealed_params, created_by, identities, person_id, key_id, role,
     scope, created_at, state, rate_per_second, total, after_id, through_id, items_max, rollout, wave, run_at, approved_by)
VALUES
    (:job_id, :area, :target, :action, :filter, :params, :sealed_params, :created_by, :identities, :person_id, :key_id,
     :role, :scope, :now_ms, :state, :rate_per_second, :total, :after_id, :through_id, :items_max, :rollout, :wave, :now_ms,
     :approved_by)
RETURNING id

-- name: job
-- One job.
SELECT * FROM jobs WHERE job_id = :job_id

-- name: jobs
-- A page of jobs, newest first.
SELECT * FROM jobs
WHERE id < :before AND (CAST(:state AS TEXT) IS NULL OR state = :state)
  AND (CAST(:target AS TEXT) IS NULL OR target = :target)
ORDER BY id DESC LIMIT :limit

-- name: items
-- A page of the results of a job, in the order of the items.
SELECT item, state, ref, result, error, at FROM job_items
WHERE job = :job AND item > :after ORDER BY item LIMIT :limit

-- name: items_in_state
-- A page of the results in one state.
SELECT item, state, ref, result, error, at FROM job_items
WHERE job = :job AND state = :state AND item > :after ORDER BY item LIMIT :limit

-- name: items_not_done
-- A page of the failed or skipped results, from their own index.
SELECT item, state, ref, result, error, at FROM job_items
WHERE job = :job AND state = :state AND state <> 'done' AND item > :after ORDER BY item LIMIT :limit

-- name: set_state
-- Changes the state of a job. A paused or ended job has no lease.
UPDATE jobs
SET state = :state, reason = :reason, finished_at = :finished_at, lease_owner = NULL, lease_until = NULL
WHERE id = :id

-- name: approve
-- A second person has approved the job.
UPDATE jobs SET state = 'queued', approved_by = :actor, run_at = :now_ms WHERE id = :id

-- name: counts
-- How many jobs are open, by state.
SELECT state, COUNT(*) AS jobs FROM jobs WHERE finished_at IS NULL GROUP BY state

-- name: old_jobs
-- Jobs that ended long ago, without those of a rollout that is still there.
SELECT id FROM jobs
WHERE finished_at IS NOT NULL AND finished_at < :before_ms AND rollout IS NULL ORDER BY finished_at LIMIT 1

-- name: delete_items
-- Deletes some results of a job.
DELETE FROM job_items WHERE job = :job AND item IN (SELECT item FROM job_items WHERE job = :job ORDER BY item LIMIT :limit)

-- name: delete_job
-- Deletes a job without results.
DELETE FROM jobs WHERE id = :job
