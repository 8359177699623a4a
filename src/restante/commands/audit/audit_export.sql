-- name: checkpoints
-- The newest checkpoint of each chain, or of one chain.
SELECT chain, n, hash, at, signature FROM audit_checkpoints AS newest
WHERE (CAST(:chain AS BIGINT) IS NULL OR chain = :chain)
    AND part = (SELECT MAX(part) FROM audit_checkpoints AS own WHERE own.chain = newest.chain)
ORDER BY chain

-- name: rows
-- A range of rows of a chain.
SELECT actor, at, chain, command_id, detail, event, from_state, n, to_state, hash FROM command_audit
WHERE chain = :chain AND n > :after AND n <= :until ORDER BY n
