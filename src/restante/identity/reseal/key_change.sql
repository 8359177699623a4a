-- name: newest
-- The newest change of the master key, finished or not.
SELECT id, old_key_id, new_key_id, is_sealing, started_at, finished_at FROM master_key_changes
ORDER BY id DESC LIMIT 1

-- name: announce
-- Begins a change.
INSERT INTO master_key_changes (old_key_id, new_key_id, started_at) VALUES (:old_key_id, :new_key_id, :now_ms)
RETURNING id, old_key_id, new_key_id, is_sealing, started_at, finished_at

-- name: forget
-- Deletes an announced change whose key is replaced by another one.
DELETE FROM master_key_changes WHERE id = :id AND is_sealing = 0

-- name: start_sealing
-- Lets the servers seal with the new key.
UPDATE master_key_changes SET is_sealing = 1 WHERE id = :id

-- name: finish
-- Ends a change.
UPDATE master_key_changes SET finished_at = :now_ms WHERE id = :id AND finished_at IS NULL

-- name: forget_unfinished
-- Deletes a change whose keys are lost.
DELETE FROM master_key_changes WHERE finished_at IS NULL

-- name: derived_keys
-- The derived keys, sealed.
SELECT purpose, sealed_key FROM derived_keys ORDER BY purpose

-- name: store_derived
-- Stores a derived key; one that is stored already stays as it is.
INSERT INTO derived_keys (purpose, sealed_key) VALUES (:purpose, :sealed_key) ON CONFLICT (purpose) DO NOTHING

-- name: forget_derived
-- Deletes the derived keys, which no key opens any more.
DELETE FROM derived_keys

-- name: report
-- Records the keys that a server process knows.
INSERT INTO master_key_holders (process, host, key_ids, seals_with, reported_at)
VALUES (:process, :host, :key_ids, :seals_with, :now_ms)
ON CONFLICT (process) DO UPDATE
SET key_ids = excluded.key_ids, seals_with = excluded.seals_with, reported_at = excluded.reported_at

-- name: remove
-- Removes the row of a process that stops.
DELETE FROM master_key_holders WHERE process = :process

-- name: remove_others
-- Removes the rows of processes that have ended.
DELETE FROM master_key_holders WHERE process <> :process

-- name: holders
-- The server processes and the keys that they know.
SELECT host, key_ids, seals_with, reported_at FROM master_key_holders

-- name: running_nodes
-- The nodes that said that they run since this time.
SELECT host FROM nodes WHERE seen_at > :since
