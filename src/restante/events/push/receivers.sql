-- name: put_receiver
-- Sets the URL of a receiver and resets its failures.
INSERT INTO event_receivers (client, profile, url, sealed_authorization)
VALUES (:client, :profile, :url, :sealed_authorization)
ON CONFLICT (client, profile) DO UPDATE SET
    url = excluded.url, sealed_authorization = excluded.sealed_authorization, failures = 0, retry_at = 0, problem = NULL

-- name: make_due_now
-- Makes waiting events due now, because the URL changed.
UPDATE event_inbox SET push_at = :now_ms
WHERE client = :client AND profile = :profile AND status = 'ready' AND push_at IS NOT NULL

-- name: delete_receiver
-- Deletes a receiver.
DELETE FROM event_receivers WHERE client = :client AND profile = :profile

-- name: clear_due
-- Leaves events that wait for push to polling.
UPDATE event_inbox SET push_at = NULL
WHERE client = :client AND profile = :profile AND status = 'ready' AND push_at IS NOT NULL

-- name: set_open_through
-- Pauses a receiver after an event, or resumes it.
UPDATE event_receivers SET open_through = :open_through WHERE client = :client AND profile = :profile

-- name: receiver_states
-- The push status of a client's receivers.
SELECT r.profile, r.url, r.open_through, r.failures, r.retry_at, r.problem, r.last_tried_at, r.last_delivered_at,
    (SELECT count(*) FROM event_inbox AS i
     WHERE i.client = r.client AND i.profile = r.profile AND i.status = 'ready' AND i.push_at IS NOT NULL) AS waiting
FROM event_receivers AS r WHERE r.client = :client ORDER BY r.profile
