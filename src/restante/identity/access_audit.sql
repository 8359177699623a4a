-- name: insert_change
-- Records a change.
INSERT INTO access_audit (at, actor, event, person_id, key_id, detail)
VALUES (:at, :actor, :event, :person_id, :key_id, :detail)

-- name: changes
-- A page of changes, newest first, of one person or key or of all.
SELECT id, at, actor, event, person_id, key_id, detail FROM access_audit
WHERE id < :before AND (CAST(:person_id AS BIGINT) IS NULL OR person_id = :person_id)
    AND (CAST(:key_id AS BIGINT) IS NULL OR key_id = :key_id)
ORDER BY id DESC LIMIT :limit

-- name: insert_item
-- Records a change of an item of a bulk job.
INSERT INTO access_audit (at, actor, event, detail, job) VALUES (:at, :actor, :event, :detail, :job)

-- name: forget_items
-- Deletes old rows about items of jobs, a bounded number at a time.
DELETE FROM access_audit WHERE id IN (
    SELECT id FROM access_audit WHERE job IS NOT NULL AND at < :before_ms ORDER BY at LIMIT :limit)
