-- Sites with their zones, collectors and miners; commands with their leases; reports of collectors; the audit trail.
-- All times are milliseconds since the epoch.

CREATE TABLE edge_sites (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
);

CREATE TABLE edge_zones (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    site_id    INTEGER NOT NULL REFERENCES edge_sites (id),
    name       TEXT NOT NULL,
    is_default INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    UNIQUE (site_id, name)
);
CREATE UNIQUE INDEX ix_edge_zones_default ON edge_zones (site_id) WHERE is_default = 1;

-- Collectors. The token is hashed; both secrets are sealed under the master key. The older secret stays valid for a
-- time.
CREATE TABLE edge_devices (
    id                    INTEGER PRIMARY KEY AUTOINCREMENT,
    site_id               INTEGER NOT NULL REFERENCES edge_sites (id),
    zone_id               INTEGER REFERENCES edge_zones (id),
    device_name           TEXT NOT NULL,
    token_hash            BLOB NOT NULL UNIQUE,
    hmac_secret           BLOB NOT NULL,
    old_hmac_secret       BLOB,
    old_secret_until      INTEGER,
    created_at            INTEGER NOT NULL,
    revoked_at            INTEGER,
    last_seen_at          INTEGER,
    UNIQUE (site_id, device_name)
);

CREATE TABLE edge_miners (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    site_id    INTEGER NOT NULL REFERENCES edge_sites (id),
    zone_id    INTEGER NOT NULL REFERENCES edge_zones (id),
    name       TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX ix_edge_miners_site ON edge_miners (site_id, id);

CREATE TABLE miner_commands (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    command_id        TEXT NOT NULL UNIQUE,
    site_id           INTEGER NOT NULL REFERENCES edge_sites (id),
    zone_id           INTEGER NOT NULL REFERENCES edge_zones (id),
    miner_id          INTEGER,
    command_type      TEXT NOT NULL,
    params            TEXT NOT NULL,
    priority          INTEGER NOT NULL DEFAULT 0,
    -- created_at minus a bonus for the priority: one constant number that orders by priority and age.
    rank              INTEGER NOT NULL,
    -- OR instead of IN: for a list of more than two SQLite would build a table at every write.
    status            TEXT NOT NULL CHECK (status = 'dispatched' OR status = 'succeeded' OR status = 'pending'
                                           OR status = 'running' OR status = 'failed' OR status = 'expired'
                                           OR status = 'cancelled' OR status = 'pending_approval'),
    expires_at        INTEGER NOT NULL,
    dedupe_key        TEXT,
    created_at        INTEGER NOT NULL,
    created_by        TEXT NOT NULL,
    approved_by       TEXT,
    approved_at       INTEGER,
    rule_id           INTEGER,
    -- The lease. attempt is the fencing token, increased at each dispatch; nonce and signed_at belong to the attempt.
    lease_owner       INTEGER REFERENCES edge_devices (id),
    lease_until       INTEGER,
    dispatched_at     INTEGER,
    attempt           INTEGER NOT NULL DEFAULT 0,
    nonce             TEXT,
    signed_at         INTEGER,
    retry_count       INTEGER NOT NULL DEFAULT 0,
    max_retries       INTEGER NOT NULL,
    retry_backoff_sec INTEGER NOT NULL,
    -- NULL: may be dispatched now. Otherwise it waits for its back-off or deferral.
    next_attempt_at   INTEGER,
    -- The last ACK, of the current attempt or of the one that ended the command.
    ack_hash          TEXT,
    ack_attempt       INTEGER,
    acked_at          INTEGER,
    executed_at       INTEGER,
    result_code       TEXT,
    result_message    TEXT,
    before_snapshot   TEXT,
    after_snapshot    TEXT,
    superseded_by     TEXT,
    finished_at       INTEGER
);
-- Commands that can be dispatched now, by site and type, in the order of dispatch.
CREATE INDEX ix_miner_commands_ready ON miner_commands (site_id, command_type, rank, id)
    WHERE status = 'pending' AND next_attempt_at IS NULL;
-- The same for a collector that serves one zone.
CREATE INDEX ix_miner_commands_ready_zone ON miner_commands (zone_id, command_type, rank, id)
    WHERE status = 'pending' AND next_attempt_at IS NULL;
-- Commands that become ready, lose their lease, or expire, by due time.
CREATE INDEX ix_miner_commands_delayed ON miner_commands (site_id, next_attempt_at)
    WHERE status = 'pending' AND next_attempt_at IS NOT NULL;
CREATE INDEX ix_miner_commands_leased ON miner_commands (site_id, lease_until) WHERE status IN ('dispatched', 'running');
-- Without the status: otherwise every dispatch and every lost lease would move an index entry.
CREATE INDEX ix_miner_commands_expiring ON miner_commands (site_id, expires_at) WHERE finished_at IS NULL;
CREATE INDEX ix_miner_commands_site ON miner_commands (site_id, id);
CREATE INDEX ix_miner_commands_miner ON miner_commands (miner_id, id) WHERE miner_id IS NOT NULL;
CREATE UNIQUE INDEX ix_miner_commands_dedupe_active ON miner_commands (dedupe_key)
    WHERE status IN ('pending', 'dispatched', 'running') AND dedupe_key IS NOT NULL;

-- Commands that wait for approval are not active yet. They have their own unique key, so that a rule creates only
-- one.
CREATE UNIQUE INDEX ix_miner_commands_dedupe_waiting ON miner_commands (dedupe_key)
    WHERE status = 'pending_approval' AND dedupe_key IS NOT NULL;

-- One row per dispatch, kept for the rate window of its type: the sliding windows are counted here. n counts the
-- dispatches of a type at a site. Neither n nor dispatched_at ever decreases, so two index lookups count any window.
CREATE TABLE command_dispatches (
    site_id       INTEGER NOT NULL,
    command_type  TEXT NOT NULL,
    dispatched_at INTEGER NOT NULL,
    n             INTEGER NOT NULL,
    PRIMARY KEY (site_id, command_type, dispatched_at, n)
) WITHOUT ROWID;

CREATE TABLE idempotency_keys (
    actor      TEXT NOT NULL,
    key        TEXT NOT NULL,
    body_hash  BLOB NOT NULL,
    answer     TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (actor, key)
) WITHOUT ROWID;
CREATE INDEX ix_idempotency_keys_created ON idempotency_keys (created_at);

CREATE TABLE automation_rules (
    id                       INTEGER PRIMARY KEY AUTOINCREMENT,
    name                     TEXT NOT NULL,
    site_id                  INTEGER NOT NULL REFERENCES edge_sites (id),
    miner_ids                TEXT,
    trigger_type             TEXT NOT NULL,
    trigger_metric           TEXT,
    trigger_operator         TEXT,
    trigger_value            REAL,
    trigger_duration_seconds INTEGER NOT NULL DEFAULT 0,
    action_type              TEXT NOT NULL,
    action_parameters        TEXT NOT NULL,
    cooldown_seconds         INTEGER NOT NULL DEFAULT 1800,
    priority                 INTEGER NOT NULL DEFAULT 0,
    enabled                  INTEGER NOT NULL DEFAULT 1,
    created_by               TEXT NOT NULL,
    created_at               INTEGER NOT NULL,
    updated_at               INTEGER NOT NULL
);
CREATE INDEX ix_automation_rules_site ON automation_rules (site_id, id);

-- A number that changes with every change of a site's rules or of their state. A process that caches both compares it
-- in its transaction, and reads them again if it has changed.
CREATE TABLE rule_revisions (
    site_id  INTEGER PRIMARY KEY REFERENCES edge_sites (id),
    revision INTEGER NOT NULL
);

-- The state of each rule for each miner: since when its condition holds (record time), when it last fired, with which
-- result, and until when it does not fire again.
CREATE TABLE rule_states (
    rule_id         INTEGER NOT NULL REFERENCES automation_rules (id) ON DELETE CASCADE,
    miner_id        INTEGER NOT NULL,
    holds_since     INTEGER,
    last_fired_at   INTEGER,
    last_outcome    TEXT,
    last_command_id TEXT,
    quiet_until     INTEGER,
    PRIMARY KEY (rule_id, miner_id)
) WITHOUT ROWID;

-- The newest record of each miner, its slot in the ring buffer of the miner's history, and the number of records so
-- far, which determines the next slot.
CREATE TABLE telemetry_latest (
    miner_id    INTEGER PRIMARY KEY,
    ts          INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    samples     INTEGER NOT NULL,
    slot        INTEGER NOT NULL,
    record      TEXT NOT NULL
);

-- A ring buffer of records for each miner. The key begins with the slot: the records of a batch, one per miner, are
-- then next to each other, on a twentieth of the pages that a key beginning with the miner would need.
CREATE TABLE telemetry_history (
    slot     INTEGER NOT NULL,
    miner_id INTEGER NOT NULL,
    ts       INTEGER NOT NULL,
    record   TEXT NOT NULL,
    PRIMARY KEY (slot, miner_id)
) WITHOUT ROWID;

CREATE TABLE safety_events (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    site_id       INTEGER NOT NULL,
    device_id     INTEGER NOT NULL,
    miner_id      INTEGER NOT NULL,
    action        TEXT NOT NULL,
    reason        TEXT NOT NULL,
    temp_max      REAL,
    ts            INTEGER NOT NULL,
    snapshot_json TEXT,
    received_at   INTEGER NOT NULL,
    UNIQUE (device_id, miner_id, action, ts)
);
CREATE INDEX ix_safety_events_site ON safety_events (site_id, id);

-- The audit trail: a chain of keyed hashes for each site (0: entries of no site), with signed checkpoints.
-- The id is the order of writing over all chains, for paging; it is not hashed.
CREATE TABLE command_audit (
    id         INTEGER PRIMARY KEY,
    chain      INTEGER NOT NULL,
    n          INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    event      TEXT NOT NULL,
    command_id TEXT,
    from_state TEXT,
    to_state   TEXT,
    detail     TEXT NOT NULL,
    hash       BLOB NOT NULL,
    UNIQUE (chain, n)
);
CREATE INDEX ix_command_audit_command ON command_audit (command_id, n) WHERE command_id IS NOT NULL;

CREATE TABLE audit_checkpoints (
    chain     INTEGER PRIMARY KEY,
    n         INTEGER NOT NULL,
    hash      BLOB NOT NULL,
    at        INTEGER NOT NULL,
    signature BLOB NOT NULL
);
