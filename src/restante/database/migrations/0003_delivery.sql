-- The outbox, to which changes write their signals, and the log, which devices read.

CREATE TABLE device_update_outbox (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    device_id       INTEGER NOT NULL,
    event_kind      TEXT NOT NULL,
    payload         TEXT NOT NULL,
    -- OR instead of IN: for a list of more than two SQLite would build a table at every write.
    status          TEXT NOT NULL DEFAULT 'PENDING'
                    CHECK (status = 'PENDING' OR status = 'DELIVERED' OR status = 'FAILED'),
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    claimed_by      TEXT,
    claimed_at      INTEGER,
    lock_expires_at INTEGER,
    failure_reason  TEXT CHECK (length(failure_reason) <= 255),
    created_at      INTEGER NOT NULL,
    delivered_at    INTEGER
);
CREATE INDEX ix_device_update_outbox_pending ON device_update_outbox (id) WHERE status = 'PENDING';
CREATE INDEX ix_device_update_outbox_pending_device ON device_update_outbox (device_id, id) WHERE status = 'PENDING';
CREATE INDEX ix_device_update_outbox_claimed ON device_update_outbox (claimed_by, id) WHERE status = 'PENDING' AND claimed_by IS NOT NULL;
CREATE INDEX ix_device_update_outbox_failed ON device_update_outbox (id) WHERE status = 'FAILED';
CREATE INDEX ix_device_update_outbox_delivered ON device_update_outbox (delivered_at) WHERE status = 'DELIVERED';

-- One row per signal, keyed by its position: read in key order, never updated.
CREATE TABLE device_update_log (
    device_id INTEGER NOT NULL,
    ms        INTEGER NOT NULL,
    n         INTEGER NOT NULL,
    type      TEXT NOT NULL,
    ts_ms     INTEGER NOT NULL,
    ref       TEXT NOT NULL,
    PRIMARY KEY (device_id, ms, n)
) WITHOUT ROWID;
-- Clients discard a second signal with the same type and time, so there must be none.
CREATE UNIQUE INDEX ix_device_update_log_type_ts ON device_update_log (device_id, type, ts_ms);

-- The head of each device's log, so that "nothing new" and "trimmed" can be computed without reading the log.
CREATE TABLE device_update_heads (
    device_id   INTEGER PRIMARY KEY,
    newest_ms   INTEGER NOT NULL,
    newest_n    INTEGER NOT NULL,
    trimmed_ms  INTEGER NOT NULL,
    trimmed_n   INTEGER NOT NULL,
    earliest_ms INTEGER NOT NULL
);
