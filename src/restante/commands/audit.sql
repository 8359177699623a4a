-- name: checkpoints
-- Where chains stand: what their next rows follow.
SELECT chain, n, hash, at, signature FROM audit_checkpoints WHERE chain IN (SELECT value FROM json_each(:chains))

-- name: newest_row
-- The last number used in a chain that has no valid checkpoint, so that nothing is written over.
SELECT n FROM command_audit WHERE chain = :chain ORDER BY n DESC LIMIT 1

-- name: insert_row
-- One thing that happened.
INSERT INTO command_audit (chain, n, at, actor, event, command_id, from_state, to_state, detail, hash)
VALUES (:chain, :n, :at, :actor, :event, :command_id, :from_state, :to_state, :detail, :hash)

-- name: put_checkpoint
-- The chain's new end.
INSERT INTO audit_checkpoints (chain, n, hash, at, signature) VALUES (:chain, :n, :hash, :at, :signature)
ON CONFLICT (chain) DO UPDATE SET n = excluded.n, hash = excluded.hash, at = excluded.at, signature = excluded.signature
