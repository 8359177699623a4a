-- name: outcomes
-- The commands that a job made, by their state now.
SELECT c.status, COUNT(*) AS commands FROM job_items i JOIN miner_commands c ON c.command_id = i.result
WHERE i.job = :job AND i.result IS NOT NULL GROUP BY c.status

-- name: status
-- The state of a command.
SELECT status FROM miner_commands WHERE command_id = :command_id
