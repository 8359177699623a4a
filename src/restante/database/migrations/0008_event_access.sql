-- Access to event polling: used assertions, and actions of operators on clients.

-- Accepted assertions (private_key_jwt), each usable once. Kept until they would be refused as expired.
CREATE TABLE client_assertions (
    client     INTEGER NOT NULL REFERENCES event_clients (id),
    jti_hash   BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (client, jti_hash)
) WITHOUT ROWID;
CREATE INDEX ix_client_assertions_expires ON client_assertions (expires_at);

-- Actions on clients of event polling, in their order. Rows are added and never changed.
CREATE TABLE event_audit (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    event     TEXT NOT NULL,
    client_id TEXT,
    detail    TEXT NOT NULL
);
CREATE INDEX ix_event_audit_client ON event_audit (client_id, id);
