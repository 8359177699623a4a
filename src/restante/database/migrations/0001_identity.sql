-- Callers: people, their sessions, API keys; the keys that sign tokens; the tokens of devices. All times are
-- milliseconds since the epoch. Secrets are hashed (those that callers present) or sealed (those that the server
-- uses).

-- E-mail addresses are stored in lower case, so that comparisons are the same on every engine.
CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    email         TEXT NOT NULL UNIQUE,
    password_hash TEXT NOT NULL,
    role          TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'admin')),
    created_at    INTEGER NOT NULL
);

CREATE TABLE sessions (
    token_hash BLOB PRIMARY KEY,
    user_id    INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX ix_sessions_user ON sessions (user_id);
CREATE INDEX ix_sessions_expires ON sessions (expires_at);

CREATE TABLE api_keys (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL,
    key_hash   BLOB NOT NULL UNIQUE,
    role       TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'admin')),
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
);

-- The newest key signs. An older key still verifies until verifies_until.
CREATE TABLE signing_keys (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    kid            TEXT NOT NULL UNIQUE,
    sealed_key     BLOB NOT NULL,
    created_at     INTEGER NOT NULL,
    verifies_until INTEGER
);

-- A device requests access and a person approves it. The user code is useless without a signed-in person, so it is
-- stored in plain text; the device code grants access after the approval, so it is hashed.
CREATE TABLE device_codes (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    device_code_hash BLOB NOT NULL UNIQUE,
    user_code        TEXT NOT NULL UNIQUE,
    status           TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'denied', 'consumed')),
    scopes           TEXT NOT NULL,
    address          TEXT NOT NULL,
    user_agent       TEXT NOT NULL,
    interval_seconds INTEGER NOT NULL,
    user_id          INTEGER REFERENCES users (id),
    created_at       INTEGER NOT NULL,
    expires_at       INTEGER NOT NULL,
    decided_at       INTEGER,
    last_polled_at   INTEGER
);
CREATE INDEX ix_device_codes_expires ON device_codes (expires_at);

CREATE TABLE registration_codes (
    code_hash  BLOB PRIMARY KEY,
    user_id    INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at    INTEGER
);
CREATE INDEX ix_registration_codes_expires ON registration_codes (expires_at);

-- One row per family of refresh tokens, however often the token was exchanged. counter is that of the newest token.
CREATE TABLE refresh_families (
    family_hash BLOB PRIMARY KEY,
    counter     INTEGER NOT NULL,
    user_id     INTEGER NOT NULL REFERENCES users (id),
    device_id   INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    rotated_at  INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    revoked_at  INTEGER,
    end_reason  TEXT CHECK (end_reason IN ('used_twice', 'superseded', 'device_revoked'))
);
CREATE INDEX ix_refresh_families_device ON refresh_families (device_id);
CREATE INDEX ix_refresh_families_expires ON refresh_families (expires_at);

-- Increased by every change that revokes access. A process that sees an increase by another drops its caches.
CREATE TABLE revisions (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
);
INSERT INTO revisions (name, value) VALUES ('identity', 0);
