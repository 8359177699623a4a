-- name: current
-- The device's current config.
SELECT * FROM device_install_configs WHERE user_device_id = :device_id

-- name: current_version
-- The version of the device's current config.
SELECT version FROM device_install_configs WHERE user_device_id = :device_id

-- name: store
-- Stores the next version of the device's config, or the first.
INSERT INTO device_install_configs
    (user_device_id, version, installs_json, installs_hash, after_update_script, updated_by, created_at, updated_at)
VALUES (:device_id, 1, :installs_json, :installs_hash, :after_update_script, :actor, :now_ms, :now_ms)
ON CONFLICT (user_device_id) DO UPDATE SET
    version = device_install_configs.version + 1,
    installs_json = excluded.installs_json,
    installs_hash = excluded.installs_hash,
    after_update_script = excluded.after_update_script,
    updated_by = excluded.updated_by,
    updated_at = excluded.updated_at,
    state = 'behind'
RETURNING *

-- name: insert_history
-- Copies the current version into the history.
INSERT INTO device_install_config_history
    (config_id, version, installs_json, installs_hash, after_update_script, change_note, changed_by, created_at)
SELECT id, version, installs_json, installs_hash, after_update_script, :change_note, updated_by, updated_at
FROM device_install_configs WHERE id = :config_id

-- name: history
-- A page of the device's versions in order, without their items.
SELECT h.version, h.installs_hash, h.change_note, h.changed_by, h.created_at
FROM device_install_config_history h JOIN device_install_configs c ON c.id = h.config_id
WHERE c.user_device_id = :device_id AND h.version > :after
ORDER BY h.version LIMIT :limit

-- name: version
-- One version with its items.
SELECT h.*
FROM device_install_config_history h JOIN device_install_configs c ON c.id = h.config_id
WHERE c.user_device_id = :device_id AND h.version = :version

-- name: own_certificate
-- The certificate that an item names, if it belongs to the user.
SELECT id FROM cert_records WHERE id = :ob_id AND user_id = :user_id

-- name: own_authority
-- The authority that an item names, if it belongs to the user.
SELECT id FROM certificate_authorities WHERE id = :ob_id AND user_id = :user_id

-- name: mark_fetched
-- The device has fetched this version. Only a newer version than the known one changes anything.
UPDATE device_install_configs
SET fetched_version = :version, fetched_at = :now_ms,
    state = CASE WHEN state = 'behind' AND version = :version THEN 'fetched' ELSE state END
WHERE user_device_id = :device_id AND fetched_version < :version AND version >= :version

-- name: mark_applied
-- The device has reported that it applied this version, which it must have fetched.
UPDATE device_install_configs
SET applied_version = :version, applied_at = :now_ms,
    fetched_at = CASE WHEN fetched_version < :version THEN :now_ms ELSE fetched_at END,
    fetched_version = CASE WHEN fetched_version < :version THEN :version ELSE fetched_version END,
    state = CASE WHEN version = :version THEN 'applied' ELSE state END
WHERE user_device_id = :device_id AND version >= :version AND applied_version <= :version

-- name: mark_failed
-- The device has reported that it could not apply this version, which it must have fetched.
UPDATE device_install_configs
SET failed_version = :version, failed_at = :now_ms, failure = :failure,
    fetched_at = CASE WHEN fetched_version < :version THEN :now_ms ELSE fetched_at END,
    fetched_version = CASE WHEN fetched_version < :version THEN :version ELSE fetched_version END,
    state = CASE WHEN version = :version THEN 'failed' ELSE state END
WHERE user_device_id = :device_id AND version >= :version AND failed_version <= :version
