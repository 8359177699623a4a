-- name: any_pending
-- A row if there is one to be published, now or later.
SELECT 1 AS found FROM device_update_outbox WHERE status = 'PENDING' LIMIT 1

-- name: candidates
-- The oldest rows that are due, but none behind an elder of its device that waits for its retry or is leased. The
-- elders that hold back are found once, each on an index of its own, and not again for every row.
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
-- As above, with the index named: in the order of ids the optimiser would rather walk through all delivered rows.
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

-- name: take
-- Those of the rows that nobody else has locked. SQLite has one writer, and that is us.
SELECT id, device_id, payload, attempts, created_at FROM device_update_outbox
WHERE id IN :ids AND status = 'PENDING' ORDER BY id

-- name: take@postgres
-- Those of the rows that nobody else has locked: an application's open transaction is not waited for.
SELECT id, device_id, payload, attempts, created_at FROM device_update_outbox
WHERE id IN :ids AND status = 'PENDING' ORDER BY id FOR UPDATE SKIP LOCKED

-- name: take@mysql
-- Those of the rows that nobody else has locked: an application's open transaction is not waited for.
SELECT id, device_id, payload, attempts, created_at FROM device_update_outbox
WHERE id IN :ids AND status = 'PENDING' ORDER BY id FOR UPDATE SKIP LOCKED

-- name: lease
-- Makes the rows a dispatcher's own for a while.
UPDATE device_update_outbox SET claimed_by = :claimed_by, claimed_at = :now_ms, lock_expires_at = :lock_expires_at
WHERE id IN :ids

-- name: mark_delivered
-- The signals are in the log, whoever holds the rows by now.
UPDATE device_update_outbox
SET status = 'DELIVERED', delivered_at = :now_ms, lock_expires_at = NULL, next_attempt_at = NULL, failure_reason = NULL
WHERE id IN :ids AND status = 'PENDING'

-- name: pending_among
-- Which of the rows are still on their way.
SELECT id FROM device_update_outbox WHERE id IN :ids AND status = 'PENDING'

-- name: next_due
-- When the next row can be claimed: that of the device whose eldest is due first.
SELECT MIN(COALESCE(row_of.lock_expires_at, row_of.next_attempt_at, 0)) AS due_at
FROM (SELECT device_id, MIN(id) AS id FROM device_update_outbox WHERE status = 'PENDING' GROUP BY device_id) AS eldest
JOIN device_update_outbox AS row_of ON row_of.id = eldest.id
