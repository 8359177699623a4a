-- name: command
-- One command.
SELECT * FROM miner_commands WHERE command_id = :command_id

-- name: commands
-- A page of all commands, newest first.
SELECT * FROM miner_commands
WHERE id < :before AND (:status IS NULL OR status = :status)
  AND (:command_type IS NULL OR command_type = :command_type) AND (:created_by IS NULL OR created_by = :created_by)
  AND (:dedupe_key IS NULL OR dedupe_key = :dedupe_key) AND (:rule_id IS NULL OR rule_id = :rule_id)
ORDER BY id DESC LIMIT :limit

-- name: commands_of_site
-- A page of a site's commands, newest first.
SELECT * FROM miner_commands
WHERE site_id = :site_id AND id < :before AND (:status IS NULL OR status = :status)
  AND (:command_type IS NULL OR command_type = :command_type) AND (:created_by IS NULL OR created_by = :created_by)
  AND (:dedupe_key IS NULL OR dedupe_key = :dedupe_key) AND (:rule_id IS NULL OR rule_id = :rule_id)
ORDER BY id DESC LIMIT :limit

-- name: commands_of_miner
-- A page of the commands for one miner, newest first.
SELECT * FROM miner_commands
WHERE miner_id = :miner_id AND id < :before AND (:site_id IS NULL OR site_id = :site_id)
  AND (:status IS NULL OR status = :status) AND (:command_type IS NULL OR command_type = :command_type)
  AND (:created_by IS NULL OR created_by = :created_by) AND (:dedupe_key IS NULL OR dedupe_key = :dedupe_key)
  AND (:rule_id IS NULL OR rule_id = :rule_id)
ORDER BY id DESC LIMIT :limit
