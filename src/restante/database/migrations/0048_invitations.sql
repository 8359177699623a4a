-- Invitations: a person who has one sets their password with its code, once. A new one replaces the one before.
CREATE TABLE invitations (
    user_id    INTEGER PRIMARY KEY REFERENCES users (id),
    code_hash  BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX ix_invitations_code ON invitations (code_hash);
CREATE INDEX ix_invitations_expires ON invitations (expires_at);

-- The search of the console finds certificates by their domain name and by their serial number, whoever owns them.
CREATE INDEX ix_cert_records_domain ON cert_records (domain_name);
CREATE INDEX ix_cert_records_serial ON cert_records (serial);
