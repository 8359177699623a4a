-- name: insert_maker
-- Records one maker of a command.
INSERT INTO command_makers (command_id, maker, command_type, miner_id, miner_count, at)
VALUES (:command_id, :maker, :command_type, :miner_id, :miner_count, :at)

-- name: count_miners
-- How many miners a maker's commands of one type concern since a time. Commands for many miners count in full.
SELECT COUNT(DISTINCT miner_id) + COALESCE(SUM(CASE WHEN miner_id IS NULL THEN miner_count ELSE 0 END), 0) AS miners
FROM command_makers
WHERE maker = :maker AND command_type = :command_type AND at > :since
    AND (miner_id IS NULL OR CAST(:except_miner AS BIGINT) IS NULL OR miner_id <> :except_miner)

-- name: makers_of_command
-- Everybody behind a command.
SELECT maker FROM command_makers WHERE command_id = :command_id

-- name: insert_rule_maker
-- Records that somebody made or changed a rule.
INSERT INTO rule_makers (rule_id, maker) VALUES (:rule_id, :maker) ON CONFLICT (rule_id, maker) DO NOTHING

-- name: makers_of_rule
-- Everybody who made or changed a rule.
SELECT maker FROM rule_makers WHERE rule_id = :rule_id ORDER BY maker

-- name: delete_old
-- Deletes a bounded number of old makers, except of commands that still wait for approval.
DELETE FROM command_makers WHERE (command_id, maker) IN (
    SELECT old.command_id, old.maker FROM command_makers AS old
    WHERE old.at < :before AND NOT EXISTS (
        SELECT 1 FROM miner_commands AS waiting
        WHERE waiting.command_id = old.command_id AND waiting.status = 'pending_approval')
    ORDER BY old.at LIMIT :limit)
