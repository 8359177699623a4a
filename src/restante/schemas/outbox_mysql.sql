-- The outbox of device signals, in a database of your own: MariaDB from 10.6, MySQL from 8.0.13. Times are
-- milliseconds since the epoch.
CREATE TABLE device_update_outbox (
    id              BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    device_id       BIGINT NOT NULL,
    event_kind      VARCHAR(128) NOT NULL,
    payload         MEDIUMTEXT NOT NULL,
    status          VARCHAR(9) CHARACTER SET ascii NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'DELIVERED', 'FAILED')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at BIGINT,
    claimed_by      VARCHAR(128),
    claimed_at      BIGINT,
    lock_expires_at BIGINT,
    failure_reason  VARCHAR(255),
    created_at      BIGINT NOT NULL DEFAULT (FLOOR(UNIX_TIMESTAMP(NOW(3)) * 1000)),
    delivered_at    BIGINT,
    INDEX ix_device_update_outbox_status (status, id),
    INDEX ix_device_update_outbox_waiting (status, next_attempt_at, device_id),
    INDEX ix_device_update_outbox_leased (status, lock_expires_at, device_id),
    INDEX ix_device_update_outbox_delivered (status, delivered_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
