-- name: extend
-- Moves the end of a lease.
UPDATE miner_commands SET lease_until = :lease_until WHERE id = :id
