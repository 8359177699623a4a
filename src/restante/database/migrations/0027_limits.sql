-- How many bytes the response has, so that the rows of a caller can be bounded from an index.
ALTER TABLE idempotency_keys ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
CREATE INDEX ix_idempotency_keys_caller ON idempotency_keys (actor, created_at, size);

-- What collectors have used of their budgets at all nodes: token buckets, each stored as the time at which it is full
-- again. Only collectors that use much of a budget have rows.
CREATE TABLE collector_budgets (
    device_id INTEGER NOT NULL REFERENCES edge_devices (id),
    budget    TEXT NOT NULL,
    full_at   INTEGER NOT NULL,
    PRIMARY KEY (device_id, budget)
) WITHOUT ROWID;
CREATE INDEX ix_collector_budgets_full ON collector_budgets (full_at);
