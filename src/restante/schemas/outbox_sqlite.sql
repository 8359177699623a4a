-- The outbox of device signals, in an SQLite file of your own. Times are milliseconds since the epoch.
CREATE TABLE device_update_outbox (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    device_id       INTEGER NOT NULL,
    event_kind      TEXT NOT NULL,
    payload         TEXT NOT NULL,
    status          TEXT NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    claimed_by      TEXT,
    claimed_at      INTEGER,
    lock_expires_at INTEGER,
    failure_reason  TEXT,
    created_at      INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    delivered_at    INTEGER
);
CREATE INDEX ix_device_update_outbox_pending ON device_update_outbox (id) WHERE status = 'PENDING';
CREATE INDEX ix_device_update_outbox_waiting ON device_update_outbox (next_attempt_at) WHERE status = 'PENDING' AND next_attempt_at IS NOT NULL;
CREATE INDEX ix_device_update_outbox_leased ON device_update_outbox (lock_expires_at) WHERE status = 'PENDING' AND lock_expires_at IS NOT NULL;
CREATE INDEX ix_device_update_outbox_failed ON device_update_outbox (id) WHERE status = 'FAILED';
CREATE INDEX ix_device_update_outbox_delivered ON device_update_outbox (delivered_at) WHERE status = 'DELIVERED';
