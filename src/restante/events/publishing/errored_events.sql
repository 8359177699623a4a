-- name: event
-- The client and the status of an event.
SELECT i.client, i.status, c.client_id FROM event_inbox i JOIN event_clients c ON c.id = i.client WHERE i.jti = :jti

-- name: release
-- Makes one or all errored events deliverable again, and due for push if the client has a receiver.
UPDATE event_inbox
SET status = 'ready', visible_at = 0, errored_at = NULL, err = NULL, err_description = NULL,
    push_attempts = 0, push_problem = NULL,
    push_at = (SELECT MIN(CAST(:now_ms AS BIGINT)) FROM event_receivers r
               WHERE r.client = event_inbox.client AND r.profile = event_inbox.profile)
WHERE client = :client AND status = 'errored' AND (CAST(:jti AS TEXT) IS NULL OR jti = :jti)

-- name: drop
-- Drops one or all errored events.
UPDATE event_inbox SET status = 'dropped', finished_at = :now_ms, push_at = NULL
WHERE client = :client AND status = 'errored' AND (CAST(:jti AS TEXT) IS NULL OR jti = :jti)
