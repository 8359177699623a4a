-- name: leasable
-- Receivers without a lease that have a due event, the least recently used first.
SELECT r.client, r.profile, r.url, r.sealed_authorization, r.open_through
FROM event_receivers AS r JOIN event_clients AS c ON c.id = r.client
WHERE r.retry_at <= :now_ms AND (r.claimed_until IS NULL OR r.claimed_until <= :now_ms)
  AND c.suspended_at IS NULL
  AND EXISTS (SELECT 1 FROM event_inbox AS i
              WHERE i.client = r.client AND i.profile = r.profile AND i.status = 'ready' AND i.push_at <= :now_ms
                AND (r.open_through IS NULL OR i.id <= r.open_through))
ORDER BY COALESCE(r.last_tried_at, 0), r.client LIMIT :limit

-- name: leasable@postgres
-- SKIP LOCKED: concurrent writers lease different receivers.
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
-- A receiver's oldest due event. It does not overtake an unsigned event, nor one that another node has just signed: its
-- time may be later than the time of this transaction, which began before.
SELECT i.id, i.jti, i.push_attempts FROM event_inbox AS i
WHERE i.client = :client AND i.profile = :profile AND i.status = 'ready' AND i.push_at <= :now_ms
  AND (CAST(:open_through AS BIGINT) IS NULL OR i.id <= :open_through)
  AND NOT EXISTS (SELECT 1 FROM event_inbox AS u
                  WHERE u.client = :client AND u.profile = :profile AND u.status = 'unsigned' AND u.id < i.id)
  AND NOT EXISTS (SELECT 1 FROM event_inbox AS e
                  WHERE e.client = :client AND e.profile = :profile AND e.status = 'ready' AND e.push_at > :now_ms
                    AND e.push_attempts = 0 AND e.id < i.id)
ORDER BY i.id LIMIT 1

-- name: lease
-- Leases a receiver, or extends its lease.
UPDATE event_receivers SET claimed_by = :name, claimed_until = :until, last_tried_at = :now_ms
WHERE client = :client AND profile = :profile

-- name: still_leased
-- The receiver, if this process still leases it, its URL did not change, and its client is not suspended.
SELECT r.client, r.profile, r.url, r.sealed_authorization, r.open_through
FROM event_receivers AS r JOIN event_clients AS c ON c.id = r.client
WHERE r.client = :client AND r.profile = :profile AND r.claimed_by = :name AND r.claimed_until > :now_ms
  AND r.url = :url AND c.suspended_at IS NULL

-- name: still_leased@postgres
-- FOR UPDATE: a change of the URL waits until the next event is leased for the old one.
SELECT r.client, r.profile, r.url, r.sealed_authorization, r.open_through
FROM event_receivers AS r JOIN event_clients AS c ON c.id = r.client
WHERE r.client = :client AND r.profile = :profile AND r.claimed_by = :name AND r.claimed_until > :now_ms
  AND r.url = :url AND c.suspended_at IS NULL
FOR UPDATE OF r

-- name: release
-- Releases the lease of a receiver.
UPDATE event_receivers SET claimed_by = NULL, claimed_until = NULL
WHERE client = :client AND profile = :profile AND claimed_by = :name

-- name: release_all
-- Releases all leases.
UPDATE event_receivers SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by IS NOT NULL

-- name: record_delivered
-- Records a delivery; resets the failures of the receiver.
UPDATE event_receivers SET failures = 0, retry_at = 0, problem = NULL, last_delivered_at = :now_ms
WHERE client = :client AND profile = :profile AND url = :url AND claimed_by = :name

-- name: record_alive
-- Records a response that rejects the event; resets the failures of the receiver.
UPDATE event_receivers SET failures = 0, retry_at = 0, problem = :problem, last_tried_at = :now_ms
WHERE client = :client AND profile = :profile AND url = :url AND claimed_by = :name

-- name: count_failure
-- Counts one more failure in a row.
UPDATE event_receivers SET failures = failures + 1, problem = :problem, last_tried_at = :now_ms
WHERE client = :client AND profile = :profile AND url = :url AND claimed_by = :name
RETURNING failures

-- name: set_retry_at
-- Sets the time of the next attempt for the receiver.
UPDATE event_receivers SET retry_at = :retry_at WHERE client = :client AND profile = :profile

-- name: count_attempt
-- Counts an attempt for an event that still waits for push, and keeps its time beside those of the last hundred, of 14
-- characters each; without `push_at` it was the last.
UPDATE event_inbox SET push_attempts = push_attempts + 1, push_problem = :problem, push_at = :push_at,
    push_times = CASE WHEN LENGTH(push_times) >= 1400 THEN SUBSTR(push_times, 15) ELSE COALESCE(push_times, '') END
        || ',' || CAST(CAST(:now_ms AS BIGINT) AS TEXT)
WHERE id = :event AND status = 'ready' AND push_at IS NOT NULL

-- name: give_up_old
-- Leaves events that are too old to polling.
UPDATE event_inbox SET push_at = NULL
WHERE client = :client AND profile = :profile AND status = 'ready' AND push_at IS NOT NULL AND created_at <= :too_old

-- name: next_due
-- The next time at which an event may be sent: the retry of a receiver, the retry of an event, or the end of a dead
-- process's lease.
SELECT MIN(at) AS at FROM (
    SELECT MIN(retry_at) AS at FROM event_receivers WHERE retry_at > :now_ms
    UNION ALL SELECT MIN(claimed_until) AS at FROM event_receivers WHERE claimed_until > :now_ms
    UNION ALL SELECT MIN(push_at) AS at FROM event_inbox WHERE status = 'ready' AND push_at > :now_ms) AS due_times

-- name: count_failing
-- Receivers whose circuit is open.
SELECT COUNT(*) AS count FROM event_receivers WHERE failures >= :failures
