-- name: put_receiver
-- Names where to push; a receiver that moved starts anew, without its old failures.
INSERT INTO event_receivers (client, profile, url, sealed_authorization)
VALUES (:client, :profile, :url, :sealed_authorization)
ON CONFLICT (client, profile) DO UPDATE SET
    url = excluded.url, sealed_authorization = excluded.sealed_authorization, failures = 0, retry_at = 0, problem = NULL

-- name: try_at_once
-- What waited for its next try need not wait any longer, as it goes elsewhere.
UPDATE event_inbox SET push_at = :now_ms
WHERE client = :client AND profile = :profile AND status = 'ready' AND push_at IS NOT NULL

-- name: delete_receiver
-- Nobody to push to any more.
DELETE FROM event_receivers WHERE client = :client AND profile = :profile

-- name: push_no_more
-- What waited to be pushed does not, and is found by polling.
UPDATE event_inbox SET push_at = NULL
WHERE client = :client AND profile = :profile AND status = 'ready' AND push_at IS NOT NULL

-- name: hold_receiver
-- Stops sending, or starts again.
UPDATE event_receivers SET open_through = :open_through WHERE client = :client AND profile = :profile

-- name: receiver_states
-- How pushing goes, for operators.
SELECT r.profile, r.url, r.open_through, r.failures, r.retry_at, r.problem, r.last_tried_at, r.last_delivered_at,
    (SELECT count(*) FROM event_inbox AS i
     WHERE i.client = r.client AND i.profile = r.profile AND i.status = 'ready' AND i.push_at IS NOT NULL) AS waiting
FROM event_receivers AS r WHERE r.client = :client ORDER BY r.profile
