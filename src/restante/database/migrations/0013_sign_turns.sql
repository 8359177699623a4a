-- Clients take turns in having their events signed, so their unsigned rows are found client by client.
DROP INDEX ix_event_inbox_unsigned;
CREATE INDEX ix_event_inbox_unsigned ON event_inbox (client, id) WHERE status = 'unsigned';

-- Which rows of the inbox somebody is going to sign, so that several nodes share the work: of each client in a batch
-- the rows from the first to the last. Says nothing about who may.
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
