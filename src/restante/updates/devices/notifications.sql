-- name: report
-- Stores the last report of the device's agent.
UPDATE user_devices
SET agent_version = coalesce(:agent_version, agent_version), agent_events = :agent_events,
    agent_reported_at = :now_ms
WHERE id = :device_id
