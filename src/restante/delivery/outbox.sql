-- name: enqueue
-- Writes a signal into the outbox, in the transaction of the change it tells about.
INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at)
VALUES (:device_id, :event_kind, :payload, :now_ms)

-- name: enqueue@postgres
-- Several transactions may write for one device: the one with the lower id is committed first, because the other waits.
WITH held AS (SELECT id FROM user_devices WHERE id = :device_id FOR NO KEY UPDATE)
INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at)
SELECT :device_id, :event_kind, :payload, CAST(:now_ms AS BIGINT) FROM (SELECT COUNT(*) FROM held) AS done

-- name: has_pending
-- Whether a device has signals that are not yet published.
SELECT 1 FROM device_update_outbox WHERE status = 'PENDING' AND device_id = :device_id LIMIT 1

-- name: claim
-- Leases the oldest rows that are due. A row whose elder of the same device waits for its retry, or is in another
-- dispatcher's hands, waits with it; rows of other devices do not.
UPDATE device_update_outbox
SET claimed_by = :claimed_by, claimed_at = :now_ms, lock_expires_at = :lock_expires_at
WHERE id IN (
    SELECT due.id FROM device_update_outbox AS due
    WHERE due.status = 'PENDING'
      AND (due.next_attempt_at IS NULL OR due.next_attempt_at <= :now_ms)
      AND (due.lock_expires_at IS NULL OR due.lock_expires_at <= :now_ms)
      AND NOT EXISTS (
        SELECT 1 FROM device_update_outbox AS elder
        WHERE elder.status = 'PENDING' AND elder.device_id = due.device_id AND elder.id < due.id
          AND (elder.next_attempt_at > :now_ms OR elder.lock_expires_at > :now_ms))
    ORDER BY due.id LIMIT :batch)

-- name: claim@postgres
-- There the form above is planned as a join of all waiting rows with each other. Of the oldest rows, all elders of each
-- are among them: one pass over those, whatever is planned.
UPDATE device_update_outbox
SET claimed_by = :claimed_by, claimed_at = :now_ms, lock_expires_at = :lock_expires_at
WHERE id IN (
    SELECT id FROM (
        SELECT id, bool_or(waits) OVER (PARTITION BY device_id ORDER BY id) AS is_held_back FROM (
            SELECT id, device_id, COALESCE(next_attempt_at > :now_ms OR lock_expires_at > :now_ms, FALSE) AS waits
            FROM device_update_outbox WHERE status = 'PENDING'
            ORDER BY id LIMIT CAST(:looked_at AS BIGINT)
        ) AS oldest
    ) AS judged
    WHERE NOT is_held_back ORDER BY id LIMIT :batch)

-- name: is_more
-- Whether more rows wait than were looked at.
SELECT 1 FROM device_update_outbox WHERE status = 'PENDING' ORDER BY id LIMIT 1 OFFSET :looked_at

-- name: held
-- The rows a dispatcher holds a live lease on and may publish, in order. One that lost its lease finds nothing here;
-- nor does one whose elder, of the same device, was put back or reset since: it would overtake that.
SELECT held.id, held.device_id, held.payload, held.attempts FROM device_update_outbox AS held
WHERE held.status = 'PENDING' AND held.claimed_by = :claimed_by AND held.lock_expires_at > :now_ms
  AND NOT EXISTS (
    SELECT 1 FROM device_update_outbox AS elder
    WHERE elder.status = 'PENDING' AND elder.device_id = held.device_id AND elder.id < held.id
      AND (elder.claimed_by IS NULL OR elder.claimed_by <> :claimed_by OR elder.lock_expires_at <= :now_ms))
ORDER BY held.id

-- name: held@postgres
-- There another dispatcher may claim the rows, when their lease runs out, while this one publishes them: they are locked.
-- One seek for each device finds its first row that is not held.
WITH held AS MATERIALIZED (
    SELECT id, device_id, payload, attempts FROM device_update_outbox
    WHERE status = 'PENDING' AND claimed_by = :claimed_by AND lock_expires_at > :now_ms
    ORDER BY id FOR UPDATE
), stopped AS MATERIALIZED (
    SELECT device.device_id, first_other.id FROM (SELECT DISTINCT device_id FROM held) AS device
    CROSS JOIN LATERAL (
        SELECT other.id FROM device_update_outbox AS other
        WHERE other.status = 'PENDING' AND other.device_id = device.device_id
          AND (other.claimed_by IS NULL OR other.claimed_by <> :claimed_by OR other.lock_expires_at <= :now_ms)
        ORDER BY other.id LIMIT 1
    ) AS first_other
)
SELECT held.id, held.device_id, held.payload, held.attempts
FROM held LEFT JOIN stopped ON stopped.device_id = held.device_id
WHERE stopped.id IS NULL OR held.id < stopped.id
ORDER BY held.id

-- name: mark_delivered
-- The signals are in the log.
UPDATE device_update_outbox
SET status = 'DELIVERED', delivered_at = :now_ms, lock_expires_at = NULL, next_attempt_at = NULL, failure_reason = NULL
WHERE id IN (SELECT value FROM json_each(:ids))

-- name: mark_failed
-- The signal will not be published unless an operator resets the row. Another's row is left alone.
UPDATE device_update_outbox
SET status = 'FAILED', attempts = attempts + 1, lock_expires_at = NULL, next_attempt_at = NULL, failure_reason = :failure_reason
WHERE id = :id AND status = 'PENDING' AND claimed_by = :claimed_by

-- name: retry_later
-- Back to waiting, with the reason kept. Another's row is left alone.
UPDATE device_update_outbox
SET attempts = attempts + 1, next_attempt_at = :next_attempt_at, failure_reason = :failure_reason,
    claimed_by = NULL, claimed_at = NULL, lock_expires_at = NULL
WHERE id = :id AND status = 'PENDING' AND claimed_by = :claimed_by

-- name: release
-- Gives a claimed row back untried. Another's row is left alone.
UPDATE device_update_outbox SET claimed_by = NULL, claimed_at = NULL, lock_expires_at = NULL
WHERE id = :id AND status = 'PENDING' AND claimed_by = :claimed_by

-- name: release_all
-- Gives back every claimed row, whoever claimed it.
UPDATE device_update_outbox SET claimed_by = NULL, claimed_at = NULL, lock_expires_at = NULL
WHERE status = 'PENDING' AND claimed_by IS NOT NULL

-- name: devices_there
-- Which of these devices there are.
SELECT id FROM user_devices WHERE id IN (SELECT value FROM json_each(:devices))

-- name: list_rows
-- Rows for people to look at, newest first.
SELECT id, device_id, event_kind, payload, status, attempts, next_attempt_at, claimed_by, claimed_at, lock_expires_at,
       failure_reason, created_at, delivered_at
FROM device_update_outbox
WHERE (:status IS NULL OR status = :status)
  AND (:device_id IS NULL OR device_id = :device_id)
  AND (:after = 0 OR id < :after)
ORDER BY id DESC LIMIT :limit

-- name: list_rows@postgres
-- Wants to know of what type a NULL is, in words that others do not have.
SELECT id, device_id, event_kind, payload, status, attempts, next_attempt_at, claimed_by, claimed_at, lock_expires_at,
       failure_reason, created_at, delivered_at
FROM device_update_outbox
WHERE (CAST(:status AS TEXT) IS NULL OR status = :status)
  AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id)
  AND (:after = 0 OR id < :after)
ORDER BY id DESC LIMIT :limit

-- name: get_row
-- One row, whole.
SELECT id, device_id, event_kind, payload, status, attempts, next_attempt_at, claimed_by, claimed_at, lock_expires_at,
       failure_reason, created_at, delivered_at
FROM device_update_outbox WHERE id = :id

-- name: failed_ids
-- Every row that has been given up.
SELECT id FROM device_update_outbox WHERE status = 'FAILED' ORDER BY id

-- name: reset
-- Gives a FAILED row a new start.
UPDATE device_update_outbox
SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, failure_reason = NULL,
    claimed_by = NULL, claimed_at = NULL, lock_expires_at = NULL
WHERE id = :id AND status = 'FAILED'

-- name: counts
-- How many rows wait and how many have failed, each counted on its own partial index; delivered ones are not counted.
SELECT (SELECT COUNT(*) FROM device_update_outbox WHERE status = 'PENDING') AS pending,
       (SELECT COUNT(*) FROM device_update_outbox WHERE status = 'FAILED') AS failed,
       (SELECT :now_ms - created_at FROM device_update_outbox WHERE status = 'PENDING' ORDER BY id LIMIT 1) AS oldest_pending_ms

-- name: next_due
-- When the next row can be claimed: its lease over, its retry due. Only each device's eldest is asked; the others wait
-- for it, and would look due all the while.
SELECT MIN(COALESCE(eldest.lock_expires_at, eldest.next_attempt_at, 0)) AS due_at FROM device_update_outbox AS eldest
WHERE eldest.status = 'PENDING' AND NOT EXISTS (
    SELECT 1 FROM device_update_outbox AS elder
    WHERE elder.status = 'PENDING' AND elder.device_id = eldest.device_id AND elder.id < eldest.id)

-- name: next_due@postgres
-- There the form above is planned as a join of all waiting rows with each other.
SELECT MIN(COALESCE(eldest.lock_expires_at, eldest.next_attempt_at, 0)) AS due_at FROM (
    SELECT DISTINCT ON (device_id) lock_expires_at, next_attempt_at FROM device_update_outbox
    WHERE status = 'PENDING' ORDER BY device_id, id
) AS eldest

-- name: evict_delivered
-- Removes delivered rows past their retention, a bounded number at a time.
DELETE FROM device_update_outbox WHERE id IN (
    SELECT id FROM device_update_outbox
    WHERE status = 'DELIVERED' AND delivered_at < :before_ms ORDER BY delivered_at LIMIT :limit)

-- name: evict_delivered@mysql
-- As above: MySQL takes no LIMIT within IN, but one on the statement itself.
DELETE FROM device_update_outbox
WHERE status = 'DELIVERED' AND delivered_at < :before_ms ORDER BY delivered_at LIMIT :limit
