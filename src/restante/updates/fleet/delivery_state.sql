-- name: delivery
-- A device with its last poll, its confirmed position and the state of its install config.
SELECT d.id, d.user_id, d.name, d.created_at, d.revoked_at, d.agent_reported_at,
       p.last_seen_at, p.overdue_at, p.received_ms, p.received_n,
       c.version, c.updated_at AS config_updated_at, c.state, c.fetched_version, c.fetched_at,
       c.applied_version, c.applied_at, c.failed_version, c.failed_at, c.failure
FROM user_devices AS d
LEFT JOIN device_presence AS p ON p.device_id = d.id
LEFT JOIN device_install_configs AS c ON c.user_device_id = d.id
WHERE d.id = :device_id

-- name: oldest_unreceived
-- The first signal after a position.
SELECT ms, n FROM device_update_log WHERE device_id = :device_id AND (ms, n) > (:ms, :n) ORDER BY ms, n LIMIT 1

-- name: count_outbox
-- How many signals of a device wait to be published, and how many cannot be.
SELECT (SELECT COUNT(*) FROM device_update_outbox WHERE status = 'PENDING' AND device_id = :device_id) AS queued,
       (SELECT COUNT(*) FROM device_update_outbox WHERE status = 'FAILED' AND device_id = :device_id) AS undeliverable

-- name: unpublished
-- The newest signals of a device that are not published, newest first.
SELECT id, event_kind, payload, status, failure_reason, created_at FROM device_update_outbox
WHERE id IN (
    SELECT id FROM (SELECT id FROM device_update_outbox WHERE status = 'PENDING' AND device_id = :device_id
        ORDER BY id DESC LIMIT 100) AS pending
    UNION ALL
    SELECT id FROM (SELECT id FROM device_update_outbox WHERE status = 'FAILED' AND device_id = :device_id
        ORDER BY id DESC LIMIT 100) AS failed)
ORDER BY id DESC

-- name: signals
-- A page of the log of a device, newest first, with what the device reported about each signal.
SELECT l.ms, l.n, l.type, l.ts_ms, l.ref, o.outcome, o.detail, o.at AS outcome_at
FROM device_update_log AS l LEFT JOIN device_signal_outcomes AS o ON o.device_id = l.device_id AND o.n = l.n
WHERE l.device_id = :device_id AND l.n < :before
ORDER BY l.ms DESC, l.n DESC LIMIT :limit

-- name: receipts
-- When the device confirmed the signals from a number on.
SELECT n, at FROM device_receipts WHERE device_id = :device_id AND n >= :least ORDER BY n LIMIT :limit
