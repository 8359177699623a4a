-- name: command
-- One command.
SELECT * FROM miner_commands WHERE command_id = :command_id
