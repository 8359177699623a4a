-- name: insert_action
-- Records one action.
INSERT INTO event_audit (at, actor, event, client_id, detail) VALUES (:at, :actor, :event, :client_id, :detail)

-- name: actions
-- A page of actions, newest first, of one client or of all.
SELECT id, at, actor, event, client_id, detail
FROM event_audit
WHERE id < :before AND (CAST(:client_id AS TEXT) IS NULL OR client_id = :client_id)
  AND (CAST(:clients AS TEXT) IS NULL OR client_id IN (
    SELECT c.client_id FROM event_clients c WHERE c.id IN (SELECT value FROM json_each(:clients))))
ORDER BY id DESC LIMIT :limit

-- name: forget_old
-- Deletes a bounded number of old actions on single events. Ids grow with time, so it reads the rows with the lowest ids;
-- an index by time would slow down every publish.
DELETE FROM event_audit WHERE id IN (
    SELECT id FROM (
        SELECT id, at FROM event_audit
        WHERE event IN ('event.published', 'event.released', 'event.dropped', 'event.redelivered', 'events.released', 'events.dropped')
        ORDER BY id LIMIT :limit) AS oldest
    WHERE at < :before_ms)
