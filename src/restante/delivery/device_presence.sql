-- name: add_receipts
-- Records when the devices whose position has moved confirmed it; returns these devices.
INSERT INTO device_receipts (device_id, n, at)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[4]'), json_extract(value, '$[1]')
FROM json_each(:rows) LEFT JOIN device_presence AS p ON p.device_id = json_extract(value, '$[0]')
WHERE json_extract(value, '$[4]') > COALESCE(p.received_n, 0)
ON CONFLICT (device_id, n) DO NOTHING
RETURNING device_id

-- name: add_receipts@postgres
-- PostgreSQL has another function for JSON lists.
INSERT INTO device_receipts (device_id, n, at)
SELECT CAST(value ->> 0 AS BIGINT), CAST(value ->> 4 AS BIGINT), CAST(value ->> 1 AS BIGINT)
FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS listed (value)
LEFT JOIN device_presence AS p ON p.device_id = CAST(value ->> 0 AS BIGINT)
WHERE CAST(value ->> 4 AS BIGINT) > COALESCE(p.received_n, 0)
ON CONFLICT (device_id, n) DO NOTHING
RETURNING device_id

-- name: trim_receipts
-- Deletes the receipts and reports of signals that the log no longer holds.
DELETE FROM device_receipts
WHERE device_id IN (SELECT value FROM json_each(:devices))
  AND n <= (SELECT trimmed_n FROM device_update_heads AS head WHERE head.device_id = device_receipts.device_id)

-- name: save_presence
-- Moves times and positions of devices forward, never back. A revoked device is never overdue.
INSERT INTO device_presence (device_id, last_seen_at, overdue_at, received_ms, received_n)
SELECT d.id, json_extract(value, '$[1]'), CASE WHEN d.revoked_at IS NULL THEN json_extract(value, '$[2]') END,
    json_extract(value, '$[3]'), json_extract(value, '$[4]')
FROM json_each(:rows) CROSS JOIN user_devices AS d ON d.id = json_extract(value, '$[0]') WHERE TRUE
ON CONFLICT (device_id) DO UPDATE SET
    overdue_at = CASE WHEN excluded.last_seen_at >= device_presence.last_seen_at
        THEN excluded.overdue_at ELSE device_presence.overdue_at END,
    last_seen_at = MAX(device_presence.last_seen_at, excluded.last_seen_at),
    received_ms = CASE WHEN excluded.received_n > device_presence.received_n
        THEN excluded.received_ms ELSE device_presence.received_ms END,
    received_n = MAX(device_presence.received_n, excluded.received_n)

-- name: save_presence@postgres
-- PostgreSQL has other functions for JSON lists and for the greater of two values. Rows are locked in the order of ids.
INSERT INTO device_presence (device_id, last_seen_at, overdue_at, received_ms, received_n)
SELECT d.id, CAST(value ->> 1 AS BIGINT), CASE WHEN d.revoked_at IS NULL THEN CAST(value ->> 2 AS BIGINT) END,
    CAST(value ->> 3 AS BIGINT), CAST(value ->> 4 AS BIGINT)
FROM jsonb_array_elements(CAST(:rows AS jsonb)) AS listed (value)
JOIN user_devices AS d ON d.id = CAST(value ->> 0 AS BIGINT)
ORDER BY d.id
ON CONFLICT (device_id) DO UPDATE SET
    overdue_at = CASE WHEN excluded.last_seen_at >= device_presence.last_seen_at
        THEN excluded.overdue_at ELSE device_presence.overdue_at END,
    last_seen_at = GREATEST(device_presence.last_seen_at, excluded.last_seen_at),
    received_ms = CASE WHEN excluded.received_n > device_presence.received_n
        THEN excluded.received_ms ELSE device_presence.received_ms END,
    received_n = GREATEST(device_presence.received_n, excluded.received_n)
