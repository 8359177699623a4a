-- name: claimable
-- Receivers that nobody holds and that have something due, those first that were sent to longest ago.
SELECT r.client, r.profile, r.url, r.sealed_authorization, r.open_through
FROM event_receivers AS r JOIN event_clients AS c ON c.id = r.client
WHERE r.retry_at <= :now_ms AND (r.claimed_until IS NULL OR r.claimed_until <= :now_ms)
  AND c.suspended_at IS NULL
  AND EXISTS (SELECT 1 FROM event_inbox AS i
              WHERE i.client = r.client AND i.profile = r.profile AND i.status = 'ready' AND i.push_at <= :now_ms
                AND (r.open_through IS NULL OR i.id <= r.open_through))
ORDER BY COALESCE(r.last_tried_at, 0), r.client LIMIT :limit

-- name: claimable@postgres
-- As above, with the rows locked: of several writers each takes receivers that no other one is about to take.
SELECT r.client, r.profile, r.url, r.sealed_authorization, r.open_through
FROM event_receivers AS r JOIN event_clients AS c ON c.id = r.client
WHERE r.retry_at <= :now_ms AND (r.claimed_until IS NULL OR r.claimed_until <= :now_ms)
  AND c.suspended_at IS NULL
  AND EXISTS (SELECT 1 FROM event_inbox AS i
              WHERE i.client = r.client AND i.profile = r.profile AND i.status = 'ready' AND i.push_at <= :now_ms
                AND (r.open_through IS NULL OR i.id <= r.open_through))
ORDER BY COALESCE(r.last_tried_at, 0), r.client LIMIT :limit
FOR UPDATE OF r SKIP LOCKED

-- name: oldest_due
-- A receiver's next event. One that is still to be signed is not overtaken.
SELECT i.id, i.jti, i.push_attempts FROM event_inbox AS i
WHERE i.client = :client AND i.profile = :profile AND i.status = 'ready' AND i.push_at <= :now_ms
  AND (CAST(:open_through AS BIGINT) IS NULL OR i.id <= :open_through)
  AND NOT EXISTS (SELECT 1 FROM event_inbox AS u
                  WHERE u.client = :client AND u.profile = :profile AND u.status = 'unsigned' AND u.id < i.id)
ORDER BY i.id LIMIT 1

-- name: hold
-- Claims a receiver, or goes on holding it.
UPDATE event_receivers SET claimed_by = :name, claimed_until = :until, last_tried_at = :now_ms
WHERE client = :client AND profile = :profile

-- name: still_held
-- The receiver, if it is ours still, has not moved and may be sent to.
SELECT r.client, r.profile, r.url, r.sealed_authorization, r.open_through
FROM event_receivers AS r JOIN event_clients AS c ON c.id = r.client
WHERE r.client = :client AND r.profile = :profile AND r.claimed_by = :name AND r.claimed_until > :now_ms
  AND r.url = :url AND c.suspended_at IS NULL

-- name: still_held@postgres
-- As above, locked: a receiver that moves meanwhile waits until its next event has been claimed for where it was.
SELECT r.client, r.profile, r.url, r.sealed_authorization, r.open_through
FROM event_receivers AS r JOIN event_clients AS c ON c.id = r.client
WHERE r.client = :client AND r.profile = :profile AND r.claimed_by = :name AND r.claimed_until > :now_ms
  AND r.url = :url AND c.suspended_at IS NULL
FOR UPDATE OF r

-- name: let_go
-- Others may claim the receiver.
UPDATE event_receivers SET claimed_by = NULL, claimed_until = NULL
WHERE client = :client AND profile = :profile AND claimed_by = :name

-- name: let_all_go
-- Ends all claims.
UPDATE event_receivers SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by IS NOT NULL

-- name: note_delivered
-- An event arrived: whatever was wrong with the receiver is over.
UPDATE event_receivers SET failures = 0, retry_at = 0, problem = NULL, last_delivered_at = :now_ms
WHERE client = :client AND profile = :profile AND url = :url AND claimed_by = :name

-- name: note_alive
-- The receiver answers, though not what we would like.
UPDATE event_receivers SET failures = 0, retry_at = 0, problem = :problem, last_tried_at = :now_ms
WHERE client = :client AND profile = :profile AND url = :url AND claimed_by = :name

-- name: count_failure
-- One failure more in a row.
UPDATE event_receivers SET failures = failures + 1, problem = :problem, last_tried_at = :now_ms
WHERE client = :client AND profile = :profile AND url = :url AND claimed_by = :name
RETURNING failures

-- name: retry_at
-- When the receiver is asked again.
UPDATE event_receivers SET retry_at = :retry_at WHERE client = :client AND profile = :profile

-- name: count_try
-- Another try of an event that still waits for it; without a moment there is no further one.
UPDATE event_inbox SET push_attempts = push_attempts + 1, push_problem = :problem, push_at = :push_at
WHERE id = :event AND status = 'ready' AND push_at IS NOT NULL

-- name: give_up_old
-- What has been waiting for too long is left to polling.
UPDATE event_inbox SET push_at = NULL
WHERE client = :client AND profile = :profile AND status = 'ready' AND push_at IS NOT NULL AND created_at <= :too_old

-- name: next_due
-- The next moment at which something may be sent: a receiver is asked again, an event is tried again, or the lease of a
-- process that died is over.
SELECT MIN(at) AS at FROM (
    SELECT MIN(retry_at) AS at FROM event_receivers WHERE retry_at > :now_ms
    UNION ALL SELECT MIN(claimed_until) AS at FROM event_receivers WHERE claimed_until > :now_ms
    UNION ALL SELECT MIN(push_at) AS at FROM event_inbox WHERE status = 'ready' AND push_at > :now_ms) AS moments

-- name: count_failing
-- Receivers whose circuit is open.
SELECT COUNT(*) AS count FROM event_receivers WHERE failures >= :failures
