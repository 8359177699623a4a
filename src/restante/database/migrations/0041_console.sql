-- The nodes that share this database, and when each last said that it runs: for the console. A node on an embedded
-- database is alone and writes nothing here.
CREATE TABLE nodes (
    name       TEXT PRIMARY KEY,
    host       TEXT NOT NULL,
    listen     TEXT NOT NULL,
    roles      TEXT NOT NULL,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    load       TEXT NOT NULL
);

-- The search of the console finds devices by the id that they chose, whoever owns them.
CREATE INDEX ix_user_devices_public_id ON user_devices (device_public_id);
