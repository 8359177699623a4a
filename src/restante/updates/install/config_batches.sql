-- name: devices
-- Devices with their owners and their current configs.
SELECT d.id, d.user_id, d.revoked_at, c.version, c.installs_json, c.installs_hash, c.after_update_script
FROM user_devices d LEFT JOIN device_install_configs c ON c.user_device_id = d.id
WHERE d.id IN (SELECT value FROM json_each(:ids)) ORDER BY d.id

-- name: store_many
-- Stores the next version of the config of each device, or the first.
INSERT INTO device_install_configs
    (user_device_id, version, installs_json, installs_hash, after_update_script, updated_by, created_at, updated_at)
SELECT listed.value, 1, CAST(:installs_json AS TEXT), :installs_hash, CAST(:after_update_script AS TEXT),
       CAST(:actor AS TEXT), CAST(:now_ms AS BIGINT), CAST(:now_ms AS BIGINT)
FROM json_each(:ids) AS listed WHERE TRUE
ON CONFLICT (user_device_id) DO UPDATE SET
    version = device_install_configs.version + 1,
    installs_json = excluded.installs_json,
    installs_hash = excluded.installs_hash,
    after_update_script = excluded.after_update_script,
    updated_by = excluded.updated_by,
    updated_at = excluded.updated_at,
    state = 'behind'
RETURNING id, user_device_id, version

-- name: insert_history_many
-- Copies the current version of each device into the history.
INSERT INTO device_install_config_history
    (config_id, version, installs_json, installs_hash, after_update_script, change_note, changed_by, created_at)
SELECT id, version, installs_json, installs_hash, after_update_script, CAST(:change_note AS TEXT), updated_by, updated_at
FROM device_install_configs WHERE user_device_id IN (SELECT value FROM json_each(:ids))

-- name: before_current
-- The version before the current one of each device.
SELECT c.user_device_id, h.installs_json, h.after_update_script
FROM device_install_configs c JOIN device_install_config_history h ON h.config_id = c.id AND h.version = c.version - 1
WHERE c.user_device_id IN (SELECT value FROM json_each(:ids))
