-- name: report
-- Stores the last report of the device's agent.
UPDATE user_devices
SET agent_version = coalesce(:agent_version, agent_version), agent_events = :agent_events,
    agent_reported_at = :now_ms
WHERE id = :device_id

-- name: add_report
-- Adds a report to the last ones of the device.
INSERT INTO device_reports (device_id, n, at, events)
SELECT d.id, COALESCE((SELECT MAX(r.n) FROM device_reports AS r WHERE r.device_id = d.id), 0) + 1,
       CAST(:now_ms AS BIGINT), :events
FROM user_devices AS d WHERE d.id = :device_id

-- name: trim_reports
-- Deletes all but the last reports of the device.
DELETE FROM device_reports
WHERE device_id = :device_id
  AND n <= (SELECT MAX(r.n) FROM device_reports AS r WHERE r.device_id = :device_id) - :keep

-- name: reports
-- A page of the device's reports, newest first.
SELECT n, at, events FROM device_reports WHERE device_id = :device_id AND n < :before ORDER BY n DESC LIMIT :limit

-- name: set_outcome
-- Stores what the device made of a signal; its last report counts.
INSERT INTO device_signal_outcomes (device_id, n, outcome, detail, at)
VALUES (:device_id, :n, :outcome, :detail, :now_ms)
ON CONFLICT (device_id, n) DO UPDATE SET outcome = excluded.outcome, detail = excluded.detail, at = excluded.at

-- name: trim_outcomes
-- Deletes outcomes of signals that the log no longer holds.
DELETE FROM device_signal_outcomes WHERE device_id = :device_id AND n <= :n

-- name: last_signals
-- The newest signals of one type in the device's log, newest first.
SELECT ms, n, ref FROM device_update_log
WHERE device_id = :device_id AND type = :type ORDER BY ts_ms DESC LIMIT :limit
