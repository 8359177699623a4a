-- Access to event polling: assertions that were used, and what operators did to clients.

-- Assertions (private_key_jwt) that were accepted: each counts once. Kept until they would be refused as expired.
CREATE TABLE client_assertions (
    client     INTEGER NOT NULL REFERENCES event_clients (id),
    jti_hash   BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (client, jti_hash)
) WITHOUT ROWID;
CREATE INDEX ix_client_assertions_expires ON client_assertions (expires_at);

-- Who did what to the clients of event polling, in the order it was done. Rows are added and never changed.
CREATE TABLE event_audit (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at        INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    event     TEXT NOT NULL,
    client_id TEXT,
    detail    TEXT NOT NULL
);
CREATE INDEX ix_event_audit_client ON event_audit (client_id, id);
