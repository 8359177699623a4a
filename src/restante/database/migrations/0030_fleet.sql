-- The fleet as operators see it: when each device polls and how far it has read, which version of its install config it
-- has, tags, and groups. Lists are filtered by these columns, each through an index of its own.

-- What every poll moves, apart from the device's description: written in batches, and by nothing else but the first
-- registration. last_seen_at 0: the device has never polled. overdue_at: when the device counts as overdue unless it polls before; NULL: never. received_n: the
-- position of the newest signal that the device has confirmed with the cursor of a poll.
CREATE TABLE device_presence (
    device_id    INTEGER NOT NULL PRIMARY KEY REFERENCES user_devices (id),
    last_seen_at INTEGER NOT NULL DEFAULT 0,
    overdue_at   INTEGER,
    received_ms  INTEGER NOT NULL DEFAULT 0,
    received_n   INTEGER NOT NULL DEFAULT 0
);
-- A device that has never polled has ten minutes for its first poll.
INSERT INTO device_presence (device_id, last_seen_at, overdue_at)
SELECT id, COALESCE(last_seen_at, 0), CASE WHEN revoked_at IS NULL THEN COALESCE(last_seen_at, created_at) + 600000 END FROM user_devices;
CREATE INDEX ix_device_presence_seen ON device_presence (last_seen_at, device_id);
CREATE INDEX ix_device_presence_overdue ON device_presence (overdue_at, device_id) WHERE overdue_at IS NOT NULL;
ALTER TABLE user_devices DROP COLUMN last_seen_at;

-- When a device confirmed the signals up to n. Trimmed with the log.
CREATE TABLE device_receipts (
    device_id INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (device_id, n)
) WITHOUT ROWID;

-- The earliest end of the issued certificates that are assigned to the device.
ALTER TABLE user_devices ADD COLUMN certificate_expires_at INTEGER;
UPDATE user_devices SET certificate_expires_at = (
    SELECT MIN(r.not_after) FROM cert_record_devices AS c JOIN cert_records AS r ON r.id = c.cert_record_id
    WHERE c.device_id = user_devices.id AND r.status = 'issued');

-- PostgreSQL would compare names by the rules of a language, which an index of prefixes cannot serve.
/* POSTGRES ALTER TABLE user_devices ALTER COLUMN name TYPE TEXT COLLATE "C"; */
CREATE INDEX ix_user_devices_name ON user_devices (name, id);
CREATE INDEX ix_user_devices_platform ON user_devices (platform, id);
CREATE INDEX ix_user_devices_agent ON user_devices (agent_version, id) WHERE agent_version IS NOT NULL;
CREATE INDEX ix_user_devices_active ON user_devices (id) WHERE revoked_at IS NULL;
CREATE INDEX ix_user_devices_revoked ON user_devices (id) WHERE revoked_at IS NOT NULL;
CREATE INDEX ix_user_devices_expiry ON user_devices (certificate_expires_at, id) WHERE certificate_expires_at IS NOT NULL;

-- The version that the device fetched last, and the newest that it reported as applied or failed. state compares them
-- with the current version: behind (not fetched), fetched, applied, failed.
ALTER TABLE device_install_configs ADD COLUMN fetched_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device_install_configs ADD COLUMN fetched_at INTEGER;
ALTER TABLE device_install_configs ADD COLUMN applied_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device_install_configs ADD COLUMN applied_at INTEGER;
ALTER TABLE device_install_configs ADD COLUMN failed_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE device_install_configs ADD COLUMN failed_at INTEGER;
ALTER TABLE device_install_configs ADD COLUMN failure TEXT;
ALTER TABLE device_install_configs ADD COLUMN state TEXT NOT NULL DEFAULT 'behind';
CREATE INDEX ix_device_install_configs_state ON device_install_configs (state, user_device_id);
CREATE INDEX ix_device_install_configs_fetched ON device_install_configs (fetched_version, user_device_id);

-- What a device reported about single signals of its log. Trimmed with the log.
CREATE TABLE device_signal_outcomes (
    device_id INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    outcome   TEXT NOT NULL CHECK (outcome IN ('applied', 'failed')),
    detail    TEXT,
    at        INTEGER NOT NULL,
    PRIMARY KEY (device_id, n)
) WITHOUT ROWID;

-- The last reports of each device's agent: a bounded number. n counts them.
CREATE TABLE device_reports (
    device_id INTEGER NOT NULL REFERENCES user_devices (id),
    n         INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    events    TEXT NOT NULL,
    PRIMARY KEY (device_id, n)
) WITHOUT ROWID;

-- Tags of devices, collectors, miners and clients.
CREATE TABLE tags (
    kind        TEXT NOT NULL,
    resource_id INTEGER NOT NULL,
    tag         TEXT NOT NULL,
    PRIMARY KEY (kind, resource_id, tag)
) WITHOUT ROWID;
CREATE INDEX ix_tags_tag ON tags (tag, kind, resource_id);

-- Saved filters of devices. user_id 0: a group of the whole fleet; otherwise a group of this user's devices.
CREATE TABLE device_groups (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    filter     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    UNIQUE (user_id, name)
);
CREATE INDEX ix_device_groups_name ON device_groups (name, id);
