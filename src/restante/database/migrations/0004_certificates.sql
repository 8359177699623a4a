-- What devices install: install configs, certificates, authorities, and their assignments to devices. Private keys
-- and data keys are stored only sealed under the master key, or wrapped for the one device that may use them.

CREATE TABLE device_install_configs (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    user_device_id      INTEGER NOT NULL UNIQUE REFERENCES user_devices (id),
    version             INTEGER NOT NULL,
    installs_json       TEXT NOT NULL,
    installs_hash       BLOB,
    after_update_script TEXT,
    updated_by          TEXT,
    created_at          INTEGER NOT NULL,
    updated_at          INTEGER NOT NULL
);

-- All versions, the current one included. Restoring copies an old version to a new one.
CREATE TABLE device_install_config_history (
    config_id           INTEGER NOT NULL REFERENCES device_install_configs (id),
    version             INTEGER NOT NULL,
    installs_json       TEXT NOT NULL,
    installs_hash       BLOB,
    after_update_script TEXT,
    change_note         TEXT,
    changed_by          TEXT NOT NULL,
    created_at          INTEGER NOT NULL,
    PRIMARY KEY (config_id, version)
);

CREATE TABLE certificate_authorities (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id         INTEGER NOT NULL REFERENCES users (id),
    name            TEXT NOT NULL,
    status          TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'revoked')),
    common_name     TEXT NOT NULL,
    algorithm       TEXT NOT NULL CHECK (algorithm IN ('ECDSA', 'RSA')),
    key_size        INTEGER NOT NULL,
    curve_name      TEXT,
    serial          TEXT NOT NULL,
    valid_days      INTEGER NOT NULL,
    not_before      INTEGER NOT NULL,
    not_after       INTEGER NOT NULL,
    certificate_der BLOB NOT NULL,
    sealed_key      BLOB,
    created_at      INTEGER NOT NULL,
    revoked_at      INTEGER
);
CREATE INDEX ix_certificate_authorities_user ON certificate_authorities (user_id, id);

CREATE TABLE device_cas (
    device_id   INTEGER NOT NULL REFERENCES user_devices (id),
    ca_id       INTEGER NOT NULL REFERENCES certificate_authorities (id),
    assigned_at INTEGER NOT NULL,
    PRIMARY KEY (device_id, ca_id)
);
CREATE INDEX ix_device_cas_ca ON device_cas (ca_id);

CREATE TABLE acme_accounts (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id    INTEGER NOT NULL REFERENCES users (id),
    name       TEXT NOT NULL,
    email      TEXT NOT NULL,
    provider   TEXT NOT NULL,
    ca_id      INTEGER REFERENCES certificate_authorities (id),
    created_at INTEGER NOT NULL
);
CREATE INDEX ix_acme_accounts_user ON acme_accounts (user_id, id);

-- issue_number counts the issues of a certificate. Each issue has its own private key and data key, so the number
-- also identifies the data key of a wrap.
CREATE TABLE cert_records (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id         INTEGER NOT NULL REFERENCES users (id),
    acct_id         INTEGER REFERENCES acme_accounts (id) ON DELETE SET NULL,
    domain_name     TEXT NOT NULL,
    sans            TEXT NOT NULL,
    status          TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'issued', 'revoked')),
    issue_number    INTEGER NOT NULL DEFAULT 0,
    serial          TEXT,
    issuer          TEXT,
    not_before      INTEGER,
    not_after       INTEGER,
    certificate_pem TEXT,
    chain_pem       TEXT,
    enc_privkey     BLOB,
    privkey_nonce   BLOB,
    privkey_tag     BLOB,
    sealed_data_key BLOB,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    revoked_at      INTEGER
);
CREATE INDEX ix_cert_records_user ON cert_records (user_id, id);
CREATE INDEX ix_cert_records_account ON cert_records (acct_id);

-- enc_data_key is 48 zero bytes until the data key is wrapped for the device.
CREATE TABLE cert_record_devices (
    cert_record_id INTEGER NOT NULL REFERENCES cert_records (id),
    device_id      INTEGER NOT NULL REFERENCES user_devices (id),
    device_keyfp   BLOB NOT NULL,
    wrap_alg       TEXT NOT NULL,
    enc_data_key   BLOB NOT NULL,
    assigned_at    INTEGER NOT NULL,
    PRIMARY KEY (cert_record_id, device_id)
);
CREATE INDEX ix_cert_record_devices_device ON cert_record_devices (device_id, cert_record_id);
-- All pending rows have the same enc_data_key, so the worker finds them next to each other in the index.
CREATE INDEX ix_cert_record_devices_enc_data_key ON cert_record_devices (enc_data_key, cert_record_id, device_id);
