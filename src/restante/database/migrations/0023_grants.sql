-- People and API keys have grants: roles that count in a scope. Existing rows keep their role everywhere.

-- A JSON list of [role, scope]; NULL: the role counts everywhere. The column `role` has the highest role of the grants.
ALTER TABLE users ADD COLUMN grants TEXT;
ALTER TABLE users ADD COLUMN suspended_at INTEGER;
-- A removed person stays as the owner of devices; the e-mail is free again.
ALTER TABLE users ADD COLUMN removed_at INTEGER;

ALTER TABLE api_keys ADD COLUMN grants TEXT;
ALTER TABLE api_keys ADD COLUMN suspended_at INTEGER;
-- The person who made the key counts as the maker of the key's commands.
ALTER TABLE api_keys ADD COLUMN made_by INTEGER REFERENCES users (id);

-- Changes of people and API keys: who, what, when. `person_id` or `key_id` is the one that was changed.
CREATE TABLE access_audit (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    event     TEXT NOT NULL,
    person_id INTEGER,
    key_id    INTEGER,
    detail    TEXT NOT NULL
);
CREATE INDEX ix_access_audit_person ON access_audit (person_id, id);
CREATE INDEX ix_access_audit_key ON access_audit (key_id, id);
