-- name: rows_after
-- The next rows of a chain.
SELECT actor, at, chain, command_id, detail, event, from_state, n, to_state, hash FROM command_audit
WHERE chain = :chain AND n > :n ORDER BY n LIMIT :limit

-- name: checkpoint
-- The newest checkpoint of a chain.
SELECT chain, n, hash, at, signature FROM audit_checkpoints WHERE chain = :chain ORDER BY part DESC LIMIT 1

-- name: chains
-- Every chain that has rows or a checkpoint, or should have because its site exists.
SELECT DISTINCT chain FROM command_audit WHERE chain <> :root
UNION SELECT chain FROM audit_checkpoints WHERE chain <> :root
UNION SELECT id AS chain FROM edge_sites

-- name: hash_of_row
-- The hash of a row, to compare with an earlier export.
SELECT hash FROM command_audit WHERE chain = :chain AND n = :n
