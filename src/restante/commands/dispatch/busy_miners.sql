-- name: hold
-- Holds a ready command until another command of its miner has ended; checked again at the given time at the latest.
UPDATE miner_commands SET is_held = 1, next_attempt_at = :check_at WHERE id = :id

-- name: miners_with_held
-- Which of the miners have held commands. The index is named: that of all commands of a miner, ended ones included,
-- would do as well for SQLite.
SELECT miner.value FROM json_each(:miners) AS miner
WHERE EXISTS (
    SELECT 1 FROM miner_commands INDEXED BY ix_miner_commands_held
    WHERE miner_id = miner.value AND is_held = 1 AND status = 'pending'
)

-- name: miners_with_held@postgres
-- A subquery with LIMIT is sought for each miner, and its order chooses the index.
SELECT miner.value FROM json_each(:miners) AS miner
WHERE (
    SELECT 1 FROM miner_commands
    WHERE miner_id = miner.value AND is_held = 1 AND status = 'pending' ORDER BY command_type LIMIT 1
) IS NOT NULL

-- name: release
-- Makes the first held command of each type ready. One seek finds each type, a second one its first command.
WITH RECURSIVE held_types (command_type) AS (
    SELECT MIN(command_type) FROM miner_commands
    WHERE miner_id = :miner_id AND is_held = 1 AND status = 'pending'
    UNION ALL
    SELECT (
        SELECT MIN(command_type) FROM miner_commands
        WHERE miner_id = :miner_id AND command_type > held_types.command_type AND is_held = 1 AND status = 'pending'
    )
    FROM held_types WHERE command_type IS NOT NULL
)
UPDATE miner_commands SET is_held = 0, next_attempt_at = NULL
WHERE id IN (
    SELECT (
        SELECT id FROM miner_commands
        WHERE miner_id = :miner_id AND command_type = held_types.command_type AND is_held = 1 AND status = 'pending'
        ORDER BY rank, id LIMIT 1
    )
    FROM held_types WHERE command_type IS NOT NULL
)
