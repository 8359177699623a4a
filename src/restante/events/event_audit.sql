-- name: insert_action
-- One more thing that was done.
INSERT INTO event_audit (at, actor, event, client_id, detail) VALUES (:at, :actor, :event, :client_id, :detail)

-- name: actions
-- A page of what was done, the newest first, to one client or to any.
SELECT id, at, actor, event, client_id, detail
FROM event_audit
WHERE id < :before AND (CAST(:client_id AS TEXT) IS NULL OR client_id = :client_id)
ORDER BY id DESC LIMIT :limit
