-- name: is_done
-- Whether every row that an older version stored is sealed.
SELECT 1 FROM revisions WHERE name = 'sealed_params' AND value > 0

-- name: set_done
-- Records that every row that an older version stored is sealed.
UPDATE revisions SET value = 1 WHERE name = 'sealed_params'

-- name: unsealed_commands
-- The next commands of a type without sealed parameters.
SELECT id, params FROM miner_commands
WHERE id > :after AND sealed_params IS NULL AND command_type = :command_type
ORDER BY id LIMIT :limit

-- name: seal_command
-- Replaces the parameters of a command by the same ones with masks.
UPDATE miner_commands SET params = :params, sealed_params = :sealed_params WHERE id = :id

-- name: unsealed_rules
-- The rules without sealed parameters.
SELECT id, action_type, action_parameters FROM automation_rules WHERE sealed_params IS NULL ORDER BY id

-- name: seal_rule
-- Replaces the parameters of a rule's command by the same ones with masks.
UPDATE automation_rules SET action_parameters = :action_parameters, sealed_params = :sealed_params WHERE id = :id
