-- name: command
-- One command.
SELECT * FROM miner_commands WHERE command_id = :command_id

-- name: commands
-- A page of all commands, newest first.
SELECT * FROM miner_commands
WHERE id < :before AND (CAST(:status AS TEXT) IS NULL OR status = :status)
  AND (CAST(:command_type AS TEXT) IS NULL OR command_type = :command_type) AND (CAST(:created_by AS TEXT) IS NULL OR created_by = :created_by)
  AND (CAST(:dedupe_key AS TEXT) IS NULL OR dedupe_key = :dedupe_key) AND (CAST(:rule_id AS BIGINT) IS NULL OR rule_id = :rule_id)
  AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id DESC LIMIT :limit

-- name: commands_of_site
-- A page of a site's commands, newest first.
SELECT * FROM miner_commands
WHERE site_id = :site_id AND id < :before AND (CAST(:status AS TEXT) IS NULL OR status = :status)
  AND (CAST(:command_type AS TEXT) IS NULL OR command_type = :command_type) AND (CAST(:created_by AS TEXT) IS NULL OR created_by = :created_by)
  AND (CAST(:dedupe_key AS TEXT) IS NULL OR dedupe_key = :dedupe_key) AND (CAST(:rule_id AS BIGINT) IS NULL OR rule_id = :rule_id)
  AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id DESC LIMIT :limit

-- name: commands_of_miner
-- A page of the commands for one miner, newest first.
SELECT * FROM miner_commands
WHERE miner_id = :miner_id AND id < :before AND (CAST(:site_id AS BIGINT) IS NULL OR site_id = :site_id)
  AND (CAST(:status AS TEXT) IS NULL OR status = :status) AND (CAST(:command_type AS TEXT) IS NULL OR command_type = :command_type)
  AND (CAST(:created_by AS TEXT) IS NULL OR created_by = :created_by) AND (CAST(:dedupe_key AS TEXT) IS NULL OR dedupe_key = :dedupe_key)
  AND (CAST(:rule_id AS BIGINT) IS NULL OR rule_id = :rule_id)
  AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id DESC LIMIT :limit
