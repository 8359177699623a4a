-- The devices that poll.

CREATE TABLE user_devices (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id          INTEGER NOT NULL REFERENCES users (id),
    device_public_id TEXT NOT NULL,
    dev_pk           BLOB NOT NULL,
    device_keyfp     BLOB NOT NULL,
    platform         TEXT NOT NULL DEFAULT '',
    model            TEXT NOT NULL DEFAULT '',
    app_version      TEXT NOT NULL DEFAULT '',
    name             TEXT NOT NULL DEFAULT '',
    ip               TEXT NOT NULL DEFAULT '',
    user_agent       TEXT NOT NULL DEFAULT '',
    agent_version    TEXT,
    agent_events     TEXT,
    agent_reported_at INTEGER,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    last_seen_at     INTEGER,
    revoked_at       INTEGER,
    UNIQUE (user_id, device_public_id)
);
CREATE INDEX ix_user_devices_user ON user_devices (user_id, id);
