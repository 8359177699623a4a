-- name: head
-- Where a device's log stands.
SELECT newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads WHERE device_id = :device_id

-- name: hold_heads
-- The same of several, for who is about to move them.
SELECT device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads
WHERE device_id IN (SELECT value FROM json_each(:devices))

-- name: hold_heads@postgres
-- There others may be about to move them, too: they wait, all in the same order.
SELECT device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads
WHERE device_id IN (SELECT value FROM json_each(:devices))
ORDER BY device_id FOR UPDATE

-- name: make_heads
-- Rows to hold, before there is a signal; they are moved in the same transaction.
INSERT INTO device_update_heads (device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms)
SELECT value, 0, 0, 0, 0, 0 FROM json_each(:devices) WHERE TRUE ON CONFLICT (device_id) DO NOTHING

-- name: save_heads
-- Moves devices' heads on.
INSERT INTO device_update_heads (device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(:heads) WHERE TRUE
ON CONFLICT (device_id) DO UPDATE SET
    newest_ms = excluded.newest_ms, newest_n = excluded.newest_n,
    trimmed_ms = excluded.trimmed_ms, trimmed_n = excluded.trimmed_n, earliest_ms = excluded.earliest_ms

-- name: save_heads@postgres
-- As above. The rows are there, and held.
UPDATE device_update_heads AS head
SET newest_ms = CAST(moved.value ->> 1 AS BIGINT), newest_n = CAST(moved.value ->> 2 AS BIGINT),
    trimmed_ms = CAST(moved.value ->> 3 AS BIGINT), trimmed_n = CAST(moved.value ->> 4 AS BIGINT),
    earliest_ms = CAST(moved.value ->> 5 AS BIGINT)
FROM jsonb_array_elements(CAST(:heads AS jsonb)) AS moved (value)
WHERE head.device_id = CAST(moved.value ->> 0 AS BIGINT)

-- name: append_if_free
-- Adds signals, but those whose device has one of their type and time, which are to be moved; which were added.
INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), json_extract(value, '$[4]'), json_extract(value, '$[5]')
FROM json_each(:rows) WHERE TRUE
ON CONFLICT (device_id, type, ts_ms) DO NOTHING
RETURNING device_id, n

-- name: append_if_free@postgres
-- PostgreSQL takes a JSON list apart by another function.
INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
SELECT CAST(value ->> 0 AS BIGINT), CAST(value ->> 1 AS BIGINT), CAST(value ->> 2 AS BIGINT), value ->> 3,
    CAST(value ->> 4 AS BIGINT), value ->> 5
FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS listed (value)
ON CONFLICT (device_id, type, ts_ms) DO NOTHING
RETURNING device_id, n

-- name: append
-- Adds a signal, at a time at which the device has none of this type.
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
-- The n-th newest signal and the one before it: the border along which to trim.
SELECT ms, n FROM device_update_log
WHERE device_id = :device_id
ORDER BY ms DESC, n DESC LIMIT 2 OFFSET :keep - 1

-- name: trim
-- Removes what lies at or before a position.
DELETE FROM device_update_log WHERE device_id = :device_id AND (ms, n) <= (:ms, :n)
