-- name: rows_after
-- The next rows of a chain.
SELECT actor, at, chain, command_id, detail, event, from_state, n, to_state, hash FROM command_audit
WHERE chain = :chain AND n > :n ORDER BY n LIMIT :limit

-- name: checkpoint
-- Where the chain should end.
SELECT chain, n, hash, at, signature FROM audit_checkpoints WHERE chain = :chain ORDER BY part DESC LIMIT 1

-- name: chains
-- Every chain that has rows or a checkpoint, or should have, because its site is there.
SELECT DISTINCT chain FROM command_audit WHERE chain <> :root
UNION SELECT chain FROM audit_checkpoints WHERE chain <> :root
UNION SELECT id AS chain FROM edge_sites

-- name: hash_of_row
-- What an earlier export says of a row, it must still say.
SELECT hash FROM command_audit WHERE chain = :chain AND n = :n
