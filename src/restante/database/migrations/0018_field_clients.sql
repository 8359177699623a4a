-- What the certificate product's agents and scripts send: subjects of certificates, defaults of accounts, and API keys
-- that belong to a user. All columns are new and empty in existing rows, which keep their meaning.

-- A key with a user acts for that user only; a key without one acts for every user.
ALTER TABLE api_keys ADD COLUMN user_id INTEGER REFERENCES users (id);
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
CREATE INDEX ix_api_keys_user ON api_keys (user_id, id);

-- Used for certificates of the account whose issue does not say otherwise.
ALTER TABLE acme_accounts ADD COLUMN cert_valid_seconds INTEGER;
ALTER TABLE acme_accounts ADD COLUMN leaf_key_algorithm TEXT CHECK (leaf_key_algorithm IN ('ECDSA', 'RSA'));
ALTER TABLE acme_accounts ADD COLUMN leaf_ec_curve TEXT;
ALTER TABLE acme_accounts ADD COLUMN leaf_rsa_bits INTEGER;

-- Parts of the subject beside the common name, which is the domain name.
ALTER TABLE cert_records ADD COLUMN organization TEXT;
ALTER TABLE cert_records ADD COLUMN organizational_unit TEXT;
ALTER TABLE cert_records ADD COLUMN country TEXT;
ALTER TABLE cert_records ADD COLUMN state TEXT;
ALTER TABLE cert_records ADD COLUMN locality TEXT;
