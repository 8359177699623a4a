-- name: newest_checkpoints
-- The newest checkpoint of each chain but the main one.
SELECT chain, n, hash, at, signature FROM audit_checkpoints AS newest
WHERE chain <> :root AND part = (SELECT MAX(part) FROM audit_checkpoints AS own WHERE own.chain = newest.chain)

-- name: last_record
-- The newest row of the main chain that records heads.
SELECT n, at FROM command_audit WHERE chain = :root AND event = :event ORDER BY n DESC LIMIT 1

-- name: root_checkpoint
-- The newest checkpoint of the main chain.
SELECT n, hash, at, signature FROM audit_checkpoints WHERE chain = :root ORDER BY part DESC LIMIT 1

-- name: hash_of_row
-- The hash of a row, to compare with a head.
SELECT hash FROM command_audit WHERE chain = :chain AND n = :n
