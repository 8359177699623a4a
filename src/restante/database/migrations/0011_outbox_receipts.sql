-- Receipts of published rows of external outboxes. A receipt is written together with the signal, so that a
-- dispatcher that dies before it has marked the row in the external database causes no duplicate.
CREATE TABLE outbox_receipts (
    source       TEXT NOT NULL,
    row_id       BIGINT NOT NULL,
    fingerprint  TEXT NOT NULL,
    published_at BIGINT NOT NULL,
    settled_at   BIGINT,
    PRIMARY KEY (source, row_id)
);
-- A receipt is kept until its row is no longer PENDING, and some time longer.
CREATE INDEX ix_outbox_receipts_settled ON outbox_receipts (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX ix_outbox_receipts_unsettled ON outbox_receipts (source, published_at) WHERE settled_at IS NULL;
