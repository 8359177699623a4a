-- name: checkpoints
-- Where chains stand: what their next rows follow.
SELECT chain, n, hash, at, signature FROM audit_checkpoints AS newest
WHERE chain IN (SELECT value FROM json_each(:chains))
    AND part = (SELECT MAX(part) FROM audit_checkpoints AS own WHERE own.chain = newest.chain)

-- name: checkpoints@postgres
-- Found from the end: versions of older parts, which an open transaction of somebody's may keep, lie before it and are
-- not stepped over. That is a seek for each by LATERAL only.
SELECT newest.chain, newest.n, newest.hash, newest.at, newest.signature
FROM json_each(:chains) AS listed CROSS JOIN LATERAL (
    SELECT chain, n, hash, at, signature FROM audit_checkpoints
    WHERE chain = listed.value ORDER BY part DESC LIMIT 1
) AS newest

-- name: newest_row
-- The last number used in a chain that has no valid checkpoint, so that nothing is written over.
SELECT n FROM command_audit WHERE chain = :chain ORDER BY n DESC LIMIT 1

-- name: insert_row
-- One thing that happened.
INSERT INTO command_audit (chain, n, at, actor, event, command_id, from_state, to_state, detail, hash)
VALUES (:chain, :n, :at, :actor, :event, :command_id, :from_state, :to_state, :detail, :hash)

-- name: put_checkpoint
-- The chain's new end.
INSERT INTO audit_checkpoints (chain, part, n, hash, at, signature) VALUES (:chain, :part, :n, :hash, :at, :signature)
ON CONFLICT (chain, part) DO UPDATE
SET n = excluded.n, hash = excluded.hash, at = excluded.at, signature = excluded.signature

-- name: drop_checkpoint
-- The chain's end has moved on to another part.
DELETE FROM audit_checkpoints WHERE chain = :chain AND part = :part

-- name: drop_checkpoints
-- What stands for a chain's end and is not ours.
DELETE FROM audit_checkpoints WHERE chain = :chain
