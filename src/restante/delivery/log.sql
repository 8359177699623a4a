-- name: head
-- Where a device's log stands.
SELECT newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads WHERE device_id = :device_id

-- name: hold_head
-- The same for who is about to move it.
SELECT newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads WHERE device_id = :device_id

-- name: hold_head@postgres
-- There others may be about to move it, too: they wait.
SELECT newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms FROM device_update_heads WHERE device_id = :device_id
FOR UPDATE

-- name: make_head
-- A row to hold, before there is a signal; it is moved in the same transaction.
INSERT INTO device_update_heads (device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms)
VALUES (:device_id, 0, 0, 0, 0, 0) ON CONFLICT (device_id) DO NOTHING

-- name: save_head
-- Moves a device's head on.
INSERT INTO device_update_heads (device_id, newest_ms, newest_n, trimmed_ms, trimmed_n, earliest_ms)
VALUES (:device_id, :newest_ms, :newest_n, :trimmed_ms, :trimmed_n, :earliest_ms)
ON CONFLICT (device_id) DO UPDATE SET
    newest_ms = excluded.newest_ms, newest_n = excluded.newest_n,
    trimmed_ms = excluded.trimmed_ms, trimmed_n = excluded.trimmed_n, earliest_ms = excluded.earliest_ms

-- name: append
-- Adds a signal, at a time at which the device has none of this type.
INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
VALUES (:device_id, :ms, :n, :type, :ts_ms, :ref)

-- name: append_if_free
-- Adds a signal unless the device has one of this type and time: then it adds nothing, and the time is to be moved.
INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
VALUES (:device_id, :ms, :n, :type, :ts_ms, :ref)
ON CONFLICT (device_id, type, ts_ms) DO NOTHING

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
