-- name: site_of_command
-- The site of a command.
SELECT site_id FROM miner_commands WHERE command_id = :id

-- name: site_of_rule
-- The site of a rule.
SELECT site_id FROM automation_rules WHERE id = :id

-- name: site_of_collector
-- The site of a collector.
SELECT site_id FROM edge_devices WHERE id = :id

-- name: site_of_miner
-- The site of a miner.
SELECT site_id FROM edge_miners WHERE id = :id
