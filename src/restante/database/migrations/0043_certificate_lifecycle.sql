-- Renewal of certificates by calendar, lists by expiry, and revocation lists. All times are milliseconds since the epoch.

-- `renew_at`: when the next renewal is due, or tried again after a failure; NULL: never. `expiry_key` orders issued
-- certificates by their end, then by id: the second of the end, times 2^24, plus the id modulo 2^24.
ALTER TABLE cert_records ADD COLUMN auto_renew INTEGER NOT NULL DEFAULT 1;
ALTER TABLE cert_records ADD COLUMN renew_at INTEGER;
ALTER TABLE cert_records ADD COLUMN renewal_failures INTEGER NOT NULL DEFAULT 0;
ALTER TABLE cert_records ADD COLUMN renewal_failed_at INTEGER;
ALTER TABLE cert_records ADD COLUMN renewal_error TEXT;
ALTER TABLE cert_records ADD COLUMN expiry_key INTEGER;
ALTER TABLE certificate_authorities ADD COLUMN expiry_key INTEGER;

UPDATE cert_records SET expiry_key = not_after / 1000 * 16777216 + id % 16777216 WHERE status = 'issued';
UPDATE certificate_authorities SET expiry_key = not_after / 1000 * 16777216 + id % 16777216 WHERE status = 'active';
-- Two thirds of the life, as for certificates that are issued from now on.
UPDATE cert_records SET renew_at = not_before + (not_after - not_before) / 100 * 66
WHERE status = 'issued' AND acct_id IN (SELECT id FROM acme_accounts WHERE ca_id IS NOT NULL);

CREATE INDEX ix_cert_records_renew ON cert_records (renew_at) WHERE renew_at IS NOT NULL;
CREATE INDEX ix_cert_records_expiry ON cert_records (expiry_key) WHERE expiry_key IS NOT NULL;
CREATE INDEX ix_cert_records_user_expiry ON cert_records (user_id, expiry_key) WHERE expiry_key IS NOT NULL;
CREATE INDEX ix_cert_records_renewal_failed ON cert_records (expiry_key) WHERE renewal_failures > 0;
CREATE INDEX ix_certificate_authorities_expiry ON certificate_authorities (expiry_key) WHERE expiry_key IS NOT NULL;

-- Every certificate that an authority has issued and that has not ended yet: a renewal does not end the one before.
CREATE TABLE issued_certificates (
    ca_id      INTEGER NOT NULL REFERENCES certificate_authorities (id),
    serial     TEXT NOT NULL,
    cert_id    INTEGER NOT NULL REFERENCES cert_records (id),
    not_after  INTEGER NOT NULL,
    revoked_at INTEGER,
    reason     TEXT,
    PRIMARY KEY (ca_id, serial)
);
CREATE INDEX ix_issued_certificates_cert ON issued_certificates (cert_id);
CREATE INDEX ix_issued_certificates_end ON issued_certificates (not_after);
CREATE INDEX ix_issued_certificates_revoked ON issued_certificates (ca_id, revoked_at) WHERE revoked_at IS NOT NULL;

-- Older versions kept the newest certificate of each record only.
INSERT INTO issued_certificates (ca_id, serial, cert_id, not_after, revoked_at, reason)
SELECT t.ca_id, r.serial, r.id, r.not_after, r.revoked_at, CASE WHEN r.revoked_at IS NULL THEN NULL ELSE 'unspecified' END
FROM cert_records r JOIN acme_accounts t ON t.id = r.acct_id
WHERE t.ca_id IS NOT NULL AND r.serial IS NOT NULL;

-- The newest revocation list of each authority. `revision` counts its revocations, `listed_revision` is that of the list.
CREATE TABLE revocation_lists (
    ca_id           INTEGER PRIMARY KEY REFERENCES certificate_authorities (id),
    revision        INTEGER NOT NULL DEFAULT 0,
    listed_revision INTEGER NOT NULL DEFAULT 0,
    number          INTEGER NOT NULL DEFAULT 0,
    der             BLOB,
    this_update     INTEGER,
    next_update     INTEGER
);
