-- Why the token endpoint refused a client: one row for each reason, of which there are few.
CREATE TABLE client_refusals (
    client   INTEGER NOT NULL REFERENCES event_clients (id),
    reason   TEXT NOT NULL,
    count    INTEGER NOT NULL,
    detail   TEXT NOT NULL,
    address  TEXT,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    PRIMARY KEY (client, reason)
) WITHOUT ROWID;
