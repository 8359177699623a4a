-- The outbox of device signals, in a PostgreSQL database of your own. Times are milliseconds since the epoch.
CREATE TABLE device_update_outbox (
    id              BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    device_id       BIGINT NOT NULL,
    event_kind      TEXT NOT NULL,
    payload         TEXT NOT NULL,
    status          TEXT NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at BIGINT,
    claimed_by      TEXT,
    claimed_at      BIGINT,
    lock_expires_at BIGINT,
    failure_reason  VARCHAR(255),
    created_at      BIGINT NOT NULL DEFAULT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT),
    delivered_at    BIGINT
);
CREATE INDEX ix_device_update_outbox_pending ON device_update_outbox (id) WHERE status = 'PENDING';
CREATE INDEX ix_device_update_outbox_waiting ON device_update_outbox (next_attempt_at) WHERE status = 'PENDING' AND next_attempt_at IS NOT NULL;
CREATE INDEX ix_device_update_outbox_leased ON device_update_outbox (lock_expires_at) WHERE status = 'PENDING' AND lock_expires_at IS NOT NULL;
CREATE INDEX ix_device_update_outbox_failed ON device_update_outbox (id) WHERE status = 'FAILED';
CREATE INDEX ix_device_update_outbox_delivered ON device_update_outbox (delivered_at) WHERE status = 'DELIVERED';
