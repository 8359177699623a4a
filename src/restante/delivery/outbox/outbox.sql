-- name: enqueue
-- Adds a signal to the outbox, in the transaction of the change that it describes.
INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at)
VALUES (:device_id, :event_kind, :payload, :now_ms)

-- name: enqueue@postgres
-- Locks the device, so that of two transactions for one device the one with the lower id commits first.
WITH held AS (SELECT id FROM user_devices WHERE id = :device_id FOR NO KEY UPDATE)
INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at)
SELECT :device_id, :event_kind, :payload, CAST(:now_ms AS BIGINT) FROM (SELECT COUNT(*) FROM held) AS done

-- name: has_pending
-- Whether a device has signals that wait to be published.
SELECT 1 FROM device_update_outbox WHERE status = 'PENDING' AND device_id = :device_id LIMIT 1

-- name: claim
-- Leases the oldest due rows. A row waits while an older row of the same device waits for its retry or is leased by
-- another dispatcher; rows of other devices do not.
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
-- PostgreSQL would plan the form above as a join of all pending rows with each other. The scanned oldest rows include
-- all older rows of each of them, so that one pass over them is enough whatever the plan.
UPDATE device_update_outbox
SET claimed_by = :claimed_by, claimed_at = :now_ms, lock_expires_at = :lock_expires_at
WHERE id IN (
    SELECT id FROM (
        SELECT id, bool_or(waits) OVER (PARTITION BY device_id ORDER BY id) AS is_held_back FROM (
            SELECT id, device_id, COALESCE(next_attempt_at > :now_ms OR lock_expires_at > :now_ms, FALSE) AS waits
            FROM device_update_outbox WHERE status = 'PENDING'
            ORDER BY id LIMIT CAST(:scan_rows AS BIGINT)
        ) AS oldest
    ) AS judged
    WHERE NOT is_held_back ORDER BY id LIMIT :batch)

-- name: has_more
-- Whether more rows are pending than were scanned.
SELECT 1 FROM device_update_outbox WHERE status = 'PENDING' ORDER BY id LIMIT 1 OFFSET :scan_rows

-- name: leased
-- The rows that a dispatcher has leased and may publish, in order. Rows whose lease has expired are left out, and so
-- are rows behind an older row of the same device that was released or reset since: they would overtake it.
SELECT held.id, held.device_id, held.payload, held.attempts FROM device_update_outbox AS held
WHERE held.status = 'PENDING' AND held.claimed_by = :claimed_by AND held.lock_expires_at > :now_ms
  AND NOT EXISTS (
    SELECT 1 FROM device_update_outbox AS elder
    WHERE elder.status = 'PENDING' AND elder.device_id = held.device_id AND elder.id < held.id
      AND (elder.claimed_by IS NULL OR elder.claimed_by <> :claimed_by OR elder.lock_expires_at <= :now_ms))
ORDER BY held.id

-- name: leased@postgres
-- Locks the rows: their lease may expire, and another dispatcher claim them, while this one publishes them. One index
-- lookup for each device finds its first row that is not leased.
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
-- The signal will not be published unless an operator resets the row. Only for the dispatcher that has the lease.
UPDATE device_update_outbox
SET status = 'FAILED', attempts = attempts + 1, lock_expires_at = NULL, next_attempt_at = NULL, failure_reason = :failure_reason
WHERE id = :id AND status = 'PENDING' AND claimed_by = :claimed_by

-- name: retry_later
-- Schedules a retry and records the reason. Only for the dispatcher that has the lease.
UPDATE device_update_outbox
SET attempts = attempts + 1, next_attempt_at = :next_attempt_at, failure_reason = :failure_reason,
    claimed_by = NULL, claimed_at = NULL, lock_expires_at = NULL
WHERE id = :id AND status = 'PENDING' AND claimed_by = :claimed_by

-- name: release
-- Releases a row without an attempt. Only for the dispatcher that has the lease.
UPDATE device_update_outbox SET claimed_by = NULL, claimed_at = NULL, lock_expires_at = NULL
WHERE id = :id AND status = 'PENDING' AND claimed_by = :claimed_by

-- name: release_all
-- Releases every leased row of any dispatcher.
UPDATE device_update_outbox SET claimed_by = NULL, claimed_at = NULL, lock_expires_at = NULL
WHERE status = 'PENDING' AND claimed_by IS NOT NULL

-- name: known_devices
-- Which of these devices exist.
SELECT id FROM user_devices WHERE id IN (SELECT value FROM json_each(:devices))

-- name: list_rows
-- Rows for operators, newest first.
SELECT id, device_id, event_kind, payload, status, attempts, next_attempt_at, claimed_by, claimed_at, lock_expires_at,
       failure_reason, created_at, delivered_at
FROM device_update_outbox
WHERE (:status IS NULL OR status = :status)
  AND (:device_id IS NULL OR device_id = :device_id)
  AND (:after = 0 OR id < :after)
ORDER BY id DESC LIMIT :limit

-- name: list_rows@postgres
-- PostgreSQL needs the types of parameters that may be NULL.
SELECT id, device_id, event_kind, payload, status, attempts, next_attempt_at, claimed_by, claimed_at, lock_expires_at,
       failure_reason, created_at, delivered_at
FROM device_update_outbox
WHERE (CAST(:status AS TEXT) IS NULL OR status = :status)
  AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id)
  AND (:after = 0 OR id < :after)
ORDER BY id DESC LIMIT :limit

-- name: get_row
-- One row.
SELECT id, device_id, event_kind, payload, status, attempts, next_attempt_at, claimed_by, claimed_at, lock_expires_at,
       failure_reason, created_at, delivered_at
FROM device_update_outbox WHERE id = :id

-- name: failed_ids
-- All FAILED rows.
SELECT id FROM device_update_outbox WHERE status = 'FAILED' ORDER BY id

-- name: reset
-- Resets a FAILED row.
UPDATE device_update_outbox
SET status = 'PENDING', attempts = 0, next_attempt_at = NULL, failure_reason = NULL,
    claimed_by = NULL, claimed_at = NULL, lock_expires_at = NULL
WHERE id = :id AND status = 'FAILED'

-- name: counts
-- Counts pending and failed rows, each on its own partial index; delivered rows are not counted.
SELECT (SELECT COUNT(*) FROM device_update_outbox WHERE status = 'PENDING') AS pending,
       (SELECT COUNT(*) FROM device_update_outbox WHERE status = 'FAILED') AS failed,
       (SELECT :now_ms - created_at FROM device_update_outbox WHERE status = 'PENDING' ORDER BY id LIMIT 1) AS oldest_pending_ms

-- name: next_due
-- When the next row can be claimed: its lease expired, or its retry due. Only the oldest row of each device counts:
-- the others wait for it and would always look due.
SELECT MIN(COALESCE(eldest.lock_expires_at, eldest.next_attempt_at, 0)) AS due_at FROM device_update_outbox AS eldest
WHERE eldest.status = 'PENDING' AND NOT EXISTS (
    SELECT 1 FROM device_update_outbox AS elder
    WHERE elder.status = 'PENDING' AND elder.device_id = eldest.device_id AND elder.id < eldest.id)

-- name: next_due@postgres
-- PostgreSQL would plan the form above as a join of all pending rows with each other.
SELECT MIN(COALESCE(eldest.lock_expires_at, eldest.next_attempt_at, 0)) AS due_at FROM (
    SELECT DISTINCT ON (device_id) lock_expires_at, next_attempt_at FROM device_update_outbox
    WHERE status = 'PENDING' ORDER BY device_id, id
) AS eldest

-- name: evict_delivered
-- Deletes delivered rows past their retention, a bounded number at a time.
DELETE FROM device_update_outbox WHERE id IN (
    SELECT id FROM device_update_outbox
    WHERE status = 'DELIVERED' AND delivered_at < :before_ms ORDER BY delivered_at LIMIT :limit)

-- name: evict_delivered@mysql
-- The same: MySQL has no LIMIT within IN, but one for DELETE itself.
DELETE FROM device_update_outbox
WHERE status = 'DELIVERED' AND delivered_at < :before_ms ORDER BY delivered_at LIMIT :limit

-- name: list_rows_of_users
-- Rows for the devices of some users, newest first.
SELECT id, device_id, event_kind, payload, status, attempts, next_attempt_at, claimed_by, claimed_at, lock_expires_at,
       failure_reason, created_at, delivered_at
FROM device_update_outbox
WHERE (CAST(:status AS TEXT) IS NULL OR status = :status)
  AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id)
  AND (:after = 0 OR id < :after)
  AND device_id IN (SELECT d.id FROM user_devices AS d WHERE d.user_id IN (SELECT value FROM json_each(:users)))
ORDER BY id DESC LIMIT :limit

-- name: is_of_users
-- Whether the device belongs to one of the users.
SELECT 1 FROM user_devices WHERE id = :device_id AND user_id IN (SELECT value FROM json_each(:users))

-- name: failed_ids_of_users
-- All FAILED rows for the devices of some users.
SELECT id FROM device_update_outbox
WHERE status = 'FAILED'
  AND device_id IN (SELECT d.id FROM user_devices AS d WHERE d.user_id IN (SELECT value FROM json_each(:users)))
ORDER BY id

-- name: counts_of_users
-- Counts the pending and failed rows for the devices of some users.
SELECT COALESCE(SUM(CASE WHEN status = 'PENDING' THEN 1 ELSE 0 END), 0) AS pending,
       COALESCE(SUM(CASE WHEN status = 'FAILED' THEN 1 ELSE 0 END), 0) AS failed,
       CAST(:now_ms AS BIGINT) - MIN(CASE WHEN status = 'PENDING' THEN created_at END) AS oldest_pending_ms
FROM device_update_outbox
WHERE status IN ('PENDING', 'FAILED')
  AND device_id IN (SELECT d.id FROM user_devices AS d WHERE d.user_id IN (SELECT value FROM json_each(:users)))
