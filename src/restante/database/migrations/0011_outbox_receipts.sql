-- Which rows of outboxes in other databases have been published: written with the signal itself, so that a dispatcher
-- that dies before it has marked the row over there makes no duplicate.
CREATE TABLE outbox_receipts (
    source       TEXT NOT NULL,
    row_id       BIGINT NOT NULL,
    fingerprint  TEXT NOT NULL,
    published_at BIGINT NOT NULL,
    settled_at   BIGINT,
    PRIMARY KEY (source, row_id)
);
-- Receipts whose row has left PENDING are kept for a while; the others until it has.
CREATE INDEX ix_outbox_receipts_settled ON outbox_receipts (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX ix_outbox_receipts_unsettled ON outbox_receipts (source, published_at) WHERE settled_at IS NULL;
