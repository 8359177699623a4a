-- Signing is shared fairly between clients, so unsigned rows are found client by client.
DROP INDEX ix_event_inbox_unsigned;
CREATE INDEX ix_event_inbox_unsigned ON event_inbox (client, id) WHERE status = 'unsigned';

-- Leases on inbox rows to be signed, so that several nodes share the work: for each client of a batch the rows from
-- the first to the last. They are hints: they do not exclude others.
DROP TABLE event_signing_claims;
CREATE TABLE event_signing_claims (
    client        INTEGER NOT NULL,
    batch         INTEGER NOT NULL,
    first_id      INTEGER NOT NULL,
    last_id       INTEGER NOT NULL,
    claimed_until INTEGER NOT NULL,
    PRIMARY KEY (client, batch)
) WITHOUT ROWID;
CREATE INDEX ix_event_signing_claims_batch ON event_signing_claims (batch);
