-- Who may call: people, their sessions, API keys; the keys tokens are signed with; how devices come by tokens.
-- All times are milliseconds since the epoch. Secrets are kept hashed (what callers show us) or sealed (what we use).

CREATE TABLE users (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    email         TEXT NOT NULL COLLATE NOCASE UNIQUE,
    password_hash TEXT NOT NULL,
    role          TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'admin')),
    created_at    INTEGER NOT NULL
);

-- Raised by every change that takes away access. A process that sees it raised by another drops what it remembers.
CREATE TABLE revisions (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
);
INSERT INTO revisions (name, value) VALUES ('identity', 0);
