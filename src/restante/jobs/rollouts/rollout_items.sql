-- name: items_after
-- The next items that waves of the rollout have acted on.
SELECT i.item FROM job_items i JOIN jobs j ON j.id = i.job
WHERE j.rollout = :rollout AND j.wave > 0 AND i.state = 'done' AND i.item > :after
ORDER BY i.item LIMIT :limit

-- name: count
-- How many items waves of the rollout have acted on.
SELECT COUNT(*) AS items FROM job_items i JOIN jobs j ON j.id = i.job
WHERE j.rollout = :rollout AND j.wave > 0 AND i.state = 'done'

-- name: newest
-- The highest item of all jobs.
SELECT MAX(item) AS item FROM job_items

-- name: results
-- What the rollout made of these items.
SELECT i.item, i.result FROM job_items i JOIN jobs j ON j.id = i.job
WHERE i.item IN (SELECT value FROM json_each(:ids)) AND j.rollout = :rollout AND j.wave > 0 AND i.state = 'done'
