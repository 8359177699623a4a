-- name: events_after
-- The next events that match the filter.
SELECT i.id FROM event_inbox i
WHERE i.id > :after AND i.status = :status
  AND (CAST(:client_id AS TEXT) IS NULL OR i.client = (SELECT c.id FROM event_clients c WHERE c.client_id = :client_id))
  AND (CAST(:txn AS TEXT) IS NULL OR i.txn = :txn) AND (CAST(:err AS TEXT) IS NULL OR i.err = :err)
  AND (CAST(:since AS BIGINT) IS NULL OR i.created_at >= :since)
  AND (CAST(:until AS BIGINT) IS NULL OR i.created_at < :until)
  AND (CAST(:acknowledged_since AS BIGINT) IS NULL OR i.finished_at >= :acknowledged_since)
  AND (CAST(:clients AS TEXT) IS NULL OR i.client IN (SELECT value FROM json_each(:clients)))
  AND NOT EXISTS (SELECT 1 FROM event_clients c WHERE c.id = i.client AND c.removed_at IS NOT NULL)
ORDER BY i.id LIMIT :limit

-- name: count
-- How many events match the filter.
SELECT COUNT(*) AS events FROM event_inbox i
WHERE i.status = :status
  AND (CAST(:client_id AS TEXT) IS NULL OR i.client = (SELECT c.id FROM event_clients c WHERE c.client_id = :client_id))
  AND (CAST(:txn AS TEXT) IS NULL OR i.txn = :txn) AND (CAST(:err AS TEXT) IS NULL OR i.err = :err)
  AND (CAST(:since AS BIGINT) IS NULL OR i.created_at >= :since)
  AND (CAST(:until AS BIGINT) IS NULL OR i.created_at < :until)
  AND (CAST(:acknowledged_since AS BIGINT) IS NULL OR i.finished_at >= :acknowledged_since)
  AND (CAST(:clients AS TEXT) IS NULL OR i.client IN (SELECT value FROM json_each(:clients)))
  AND NOT EXISTS (SELECT 1 FROM event_clients c WHERE c.id = i.client AND c.removed_at IS NOT NULL)

-- name: by_ids
-- Events with these ids.
SELECT i.*, c.client_id FROM event_inbox i JOIN event_clients c ON c.id = i.client
WHERE i.id IN (SELECT value FROM json_each(:ids)) ORDER BY i.id

-- name: newest
-- The newest event.
SELECT MAX(id) AS id FROM event_inbox

-- name: release
-- Makes errored events deliverable again, and due for push if their client has a receiver.
UPDATE event_inbox
SET status = 'ready', visible_at = 0, errored_at = NULL, err = NULL, err_description = NULL,
    push_attempts = 0, push_problem = NULL,
    push_at = (SELECT MIN(CAST(:now_ms AS BIGINT)) FROM event_receivers r
               WHERE r.client = event_inbox.client AND r.profile = event_inbox.profile)
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'errored'
RETURNING id

-- name: drop
-- Drops errored events.
UPDATE event_inbox SET status = 'dropped', finished_at = :now_ms, push_at = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'errored'
RETURNING id

-- name: redeliver
-- Makes acknowledged events deliverable again, and due for push if their client has a receiver.
UPDATE event_inbox
SET status = 'ready', visible_at = 0, finished_at = NULL, push_attempts = 0, push_problem = NULL,
    push_at = (SELECT MIN(CAST(:now_ms AS BIGINT)) FROM event_receivers r
               WHERE r.client = event_inbox.client AND r.profile = event_inbox.profile)
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'acknowledged'
  AND NOT EXISTS (SELECT 1 FROM event_clients c WHERE c.id = event_inbox.client AND c.removed_at IS NOT NULL)
RETURNING id
