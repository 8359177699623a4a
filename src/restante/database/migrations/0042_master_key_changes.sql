-- Changes of the master key, the keys that were once derived from it, and the server processes that must know it. All
-- times are milliseconds since the epoch.

-- The unfinished change, if there is one, is the last row. An id tells keys apart and reveals nothing about them.
CREATE TABLE master_key_changes (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    old_key_id  TEXT NOT NULL,
    new_key_id  TEXT NOT NULL,
    -- Whether the servers seal with the new key; before, they only must know it.
    is_sealing  INTEGER NOT NULL DEFAULT 0,
    started_at  INTEGER NOT NULL,
    finished_at INTEGER
);

-- Keys that were derived from the first master key, sealed under the current one: they survive its change.
CREATE TABLE derived_keys (
    purpose    TEXT PRIMARY KEY,
    sealed_key BLOB NOT NULL
);

-- The server processes and the master keys that each one knows. A process writes its row at its start, and every few
-- seconds while the master key changes.
CREATE TABLE master_key_holders (
    process     TEXT PRIMARY KEY,
    host        TEXT NOT NULL,
    key_ids     TEXT NOT NULL,
    seals_with  TEXT NOT NULL,
    reported_at INTEGER NOT NULL
);
