-- name: devices
-- Devices with their last poll and the state of their install config, by id.
SELECT d.id, d.user_id, d.device_public_id, d.name, d.platform, d.model, d.app_version, d.agent_version,
       d.created_at, d.revoked_at, d.certificate_expires_at, p.last_seen_at, p.overdue_at,
       c.version, c.fetched_version, c.applied_version, c.failed_version, c.state
FROM user_devices AS d
LEFT JOIN device_presence AS p ON p.device_id = d.id
LEFT JOIN device_install_configs AS c ON c.user_device_id = d.id
WHERE d.id IN (SELECT value FROM json_each(:ids))
