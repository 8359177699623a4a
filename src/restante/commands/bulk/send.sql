-- name: outcomes
-- The commands that a job made, by their state now.
SELECT c.status, COUNT(*) AS commands FROM job_items i JOIN miner_commands c ON c.command_id = i.result
WHERE i.job = :job AND i.result IS NOT NULL GROUP BY c.status

-- name: status
-- The state of a command.
SELECT status FROM miner_commands WHERE command_id = :command_id

-- name: command
-- A command and its site.
SELECT command_id, site_id, status FROM miner_commands WHERE command_id = :command_id

-- name: laggards
-- Miners of a rollout whose command has not succeeded, and those that got none.
SELECT i.item, j.wave, i.state, i.ref, i.result, i.error, c.status
FROM job_items i JOIN jobs j ON j.id = i.job LEFT JOIN miner_commands c ON c.command_id = i.result
WHERE j.rollout = :rollout AND j.wave > 0 AND i.state <> 'skipped' AND i.item > :after
  AND (c.status IS NULL OR c.status <> 'succeeded')
ORDER BY i.item LIMIT :limit
