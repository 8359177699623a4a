-- name: insert_action
-- One more thing that was done.
INSERT INTO event_audit (at, actor, event, client_id, detail) VALUES (:at, :actor, :event, :client_id, :detail)

-- name: actions
-- A page of what was done, the newest first, to one client or to any.
SELECT id, at, actor, event, client_id, detail
FROM event_audit
WHERE id < :before AND (CAST(:client_id AS TEXT) IS NULL OR client_id = :client_id)
ORDER BY id DESC LIMIT :limit

-- name: forget_old
-- Removes what was done to events long ago, a bounded number at a time. Ids are in the order of time, so the oldest are
-- looked at and no index by time is needed, which every publishing would have to pay for.
DELETE FROM event_audit WHERE id IN (
    SELECT id FROM (
        SELECT id, at FROM event_audit
        WHERE event IN ('event.published', 'event.released', 'event.dropped', 'events.released', 'events.dropped')
        ORDER BY id LIMIT :limit) AS oldest
    WHERE at < :before_ms)
