-- name: head
-- The head of a device's log.
SELECT newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads WHERE device_id = :device_id

-- name: heads
-- The heads of several devices' logs.
SELECT device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads
WHERE device_id IN (SELECT value FROM json_each(:devices))

-- name: lock_heads
-- The heads of several devices, to be advanced. SQLite has one writer, which needs no lock.
SELECT device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads
WHERE device_id IN (SELECT value FROM json_each(:devices))

-- name: lock_heads@postgres
-- Locks the rows, in the same order in every transaction.
SELECT device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads
WHERE device_id IN (SELECT value FROM json_each(:devices))
ORDER BY device_id FOR UPDATE

-- name: create_heads
-- Rows to lock before there is a signal; the same transaction advances them.
INSERT INTO device_update_heads (device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms)
SELECT value, 0, 0, 0, 0, 0 FROM json_each(:devices) WHERE TRUE ON CONFLICT (device_id) DO NOTHING

-- name: save_heads
-- Advances the heads of devices.
INSERT INTO device_update_heads (device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(:heads) WHERE TRUE
ON CONFLICT (device_id) DO UPDATE SET
    newest_ms = excluded.newest_ms, newest_n = excluded.newest_n,
    trimmed_ms = excluded.trimmed_ms, trimmed_n = excluded.trimmed_n, earliest_ms = excluded.earliest_ms

-- name: save_heads@postgres
-- The same. The rows exist and are locked.
UPDATE device_update_heads AS head
SET newest_ms = CAST(moved.value ->> 1 AS BIGINT), newest_n = CAST(moved.value ->> 2 AS BIGINT),
    trimmed_ms = CAST(moved.value ->> 3 AS BIGINT), trimmed_n = CAST(moved.value ->> 4 AS BIGINT),
    earliest_ms = CAST(moved.value ->> 5 AS BIGINT)
FROM jsonb_array_elements(CAST(:heads AS jsonb)) AS moved (value)
WHERE head.device_id = CAST(moved.value ->> 0 AS BIGINT)

-- name: append_if_free
-- Adds the signals whose type and timestamp are free for their device; returns those that were added.
INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(:rows) WHERE TRUE
ON CONFLICT (device_id, type, ts_ms) DO NOTHING
RETURNING device_id, n

-- name: append_if_free@postgres
-- PostgreSQL has another function for JSON lists.
INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
SELECT CAST(value ->> 0 AS BIGINT), CAST(value ->> 1 AS BIGINT), CAST(value ->> 2 AS BIGINT), value ->> 3,
    CAST(value ->> 4 AS BIGINT), value ->> 5
FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS listed (value)
ON CONFLICT (device_id, type, ts_ms) DO NOTHING
RETURNING device_id, n

-- name: append
-- Adds a signal whose type and timestamp are free for its device.
INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
VALUES (:device_id, :ms, :n, :type, :ts_ms, :ref)

-- name: read_after
-- The signals after a position, in order.
SELECT ms, n, type, ts_ms, ref FROM device_update_log
WHERE device_id = :device_id AND (ms, n) > (:ms, :n)
ORDER BY ms, n LIMIT :limit

-- name: read_newest
-- The newest signals, newest first.
SELECT ms, n, type, ts_ms, ref FROM device_update_log
WHERE device_id = :device_id
ORDER BY ms DESC, n DESC LIMIT :limit

-- name: earliest_to_keep
-- The earliest signal to keep and the one before it, which is the last to trim.
SELECT ms, n FROM device_update_log
WHERE device_id = :device_id
ORDER BY ms DESC, n DESC LIMIT 2 OFFSET :keep - 1

-- name: trim
-- Deletes the signals up to a position.
DELETE FROM device_update_log WHERE device_id = :device_id AND (ms, n) <= (:ms, :n)
