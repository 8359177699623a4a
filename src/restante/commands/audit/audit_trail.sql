-- name: checkpoints
-- The newest checkpoint of each chain, which its next row follows.
SELECT chain, n, hash, at, signature FROM audit_checkpoints AS newest
WHERE chain IN (SELECT value FROM json_each(:chains))
    AND part = (SELECT MAX(part) FROM audit_checkpoints AS own WHERE own.chain = newest.chain)

-- name: checkpoints@postgres
-- Reads each chain from its end: old row versions, which an open transaction may keep, lie before it and are not stepped
-- over. PostgreSQL seeks once per chain only with LATERAL.
SELECT newest.chain, newest.n, newest.hash, newest.at, newest.signature
FROM json_each(:chains) AS listed CROSS JOIN LATERAL (
    SELECT chain, n, hash, at, signature FROM audit_checkpoints
    WHERE chain = listed.value ORDER BY part DESC LIMIT 1
) AS newest

-- name: newest_row
-- The highest number of a chain without an authentic checkpoint, so that no row is overwritten.
SELECT n FROM command_audit WHERE chain = :chain ORDER BY n DESC LIMIT 1

-- name: insert_row
-- Adds a row.
INSERT INTO command_audit (chain, n, at, actor, event, command_id, from_state, to_state, detail, hash)
VALUES (:chain, :n, :at, :actor, :event, :command_id, :from_state, :to_state, :detail, :hash)

-- name: put_checkpoint
-- Stores the new end of a chain.
INSERT INTO audit_checkpoints (chain, part, n, hash, at, signature) VALUES (:chain, :part, :n, :hash, :at, :signature)
ON CONFLICT (chain, part) DO UPDATE
SET n = excluded.n, hash = excluded.hash, at = excluded.at, signature = excluded.signature

-- name: drop_checkpoint
-- Deletes the checkpoint of a part that the chain has left.
DELETE FROM audit_checkpoints WHERE chain = :chain AND part = :part

-- name: drop_checkpoints
-- Deletes the checkpoints of a chain that are not authentic.
DELETE FROM audit_checkpoints WHERE chain = :chain
