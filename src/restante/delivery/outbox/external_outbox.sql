-- name: any_pending
-- One row if any waits to be published, now or later.
SELECT 1 AS found FROM device_update_outbox WHERE status = 'PENDING' LIMIT 1

-- name: candidates
-- The oldest due rows, without those behind an older row of the same device that waits for its retry or is leased.
-- These older rows are found once, each kind through its own index, not once per row.
SELECT due.id, due.device_id FROM device_update_outbox AS due
LEFT JOIN (
    SELECT holding.device_id, MIN(holding.id) AS first_id FROM (
        SELECT device_id, id FROM device_update_outbox WHERE status = 'PENDING' AND next_attempt_at > :now_ms
        UNION ALL
        SELECT device_id, id FROM device_update_outbox WHERE status = 'PENDING' AND lock_expires_at > :now_ms
    ) AS holding GROUP BY holding.device_id
) AS held ON held.device_id = due.device_id
WHERE due.status = 'PENDING' AND (held.first_id IS NULL OR due.id < held.first_id)
ORDER BY due.id LIMIT :batch

-- name: candidates@mysql
-- The same, with a named index: to sort by id the optimiser would rather scan all delivered rows.
SELECT due.id, due.device_id FROM device_update_outbox AS due FORCE INDEX (ix_device_update_outbox_status)
LEFT JOIN (
    SELECT holding.device_id, MIN(holding.id) AS first_id FROM (
        SELECT device_id, id FROM device_update_outbox WHERE status = 'PENDING' AND next_attempt_at > :now_ms
        UNION ALL
        SELECT device_id, id FROM device_update_outbox WHERE status = 'PENDING' AND lock_expires_at > :now_ms
    ) AS holding GROUP BY holding.device_id
) AS held ON held.device_id = due.device_id
WHERE due.status = 'PENDING' AND (held.first_id IS NULL OR due.id < held.first_id)
ORDER BY due.id LIMIT :batch

-- name: lock
-- Locks and returns the rows. SQLite has one writer, which is this transaction.
SELECT id, device_id, payload, attempts, created_at FROM device_update_outbox
WHERE id IN :ids AND status = 'PENDING' ORDER BY id

-- name: lock@postgres
-- Skips rows that others have locked: an open transaction of the application is not waited for.
SELECT id, device_id, payload, attempts, created_at FROM device_update_outbox
WHERE id IN :ids AND status = 'PENDING' ORDER BY id FOR UPDATE SKIP LOCKED

-- name: lock@mysql
-- Skips rows that others have locked: an open transaction of the application is not waited for.
SELECT id, device_id, payload, attempts, created_at FROM device_update_outbox
WHERE id IN :ids AND status = 'PENDING' ORDER BY id FOR UPDATE SKIP LOCKED

-- name: lease
-- Leases the rows to a dispatcher.
UPDATE device_update_outbox SET claimed_by = :claimed_by, claimed_at = :now_ms, lock_expires_at = :lock_expires_at
WHERE id IN :ids

-- name: mark_delivered
-- The signals are in the log, even if another dispatcher has the lease by now.
UPDATE device_update_outbox
SET status = 'DELIVERED', delivered_at = :now_ms, lock_expires_at = NULL, next_attempt_at = NULL, failure_reason = NULL
WHERE id IN :ids AND status = 'PENDING'

-- name: pending_among
-- Which of the rows are still pending.
SELECT id FROM device_update_outbox WHERE id IN :ids AND status = 'PENDING'

-- name: next_due
-- When the next row can be claimed: the earliest due time of the oldest rows of all devices.
SELECT MIN(COALESCE(row_of.lock_expires_at, row_of.next_attempt_at, 0)) AS due_at
FROM (SELECT device_id, MIN(id) AS id FROM device_update_outbox WHERE status = 'PENDING' GROUP BY device_id) AS eldest
JOIN device_update_outbox AS row_of ON row_of.id = eldest.id
