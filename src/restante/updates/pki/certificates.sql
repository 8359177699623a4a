-- name: own_account
-- The account, if it belongs to the user.
SELECT id FROM acme_accounts WHERE id = :acct_id AND user_id = :user_id

-- name: create
-- Stores a certificate that is not issued yet.
INSERT INTO cert_records
    (user_id, acct_id, domain_name, sans, organization, organizational_unit, country, state, locality,
     created_at, updated_at)
VALUES (:user_id, :acct_id, :domain_name, :sans, :organization, :organizational_unit, :country, :state, :locality,
        :now_ms, :now_ms)
RETURNING id

-- name: add_imported
-- Stores a certificate that was issued elsewhere.
INSERT INTO cert_records
    (user_id, domain_name, sans, status, issue_number, serial, issuer, not_before, not_after, certificate_pem,
     chain_pem, enc_privkey, privkey_nonce, privkey_tag, sealed_data_key, created_at, updated_at)
VALUES (:user_id, :domain_name, :sans, 'issued', 1, :serial, :issuer, :not_before, :not_after, :certificate_pem,
        :chain_pem, :enc_privkey, :privkey_nonce, :privkey_tag, :sealed_data_key, :now_ms, :now_ms)
RETURNING id

-- name: set_expiry_key
-- Puts an imported certificate into the list by expiry.
UPDATE cert_records SET expiry_key = not_after / 1000 * 16777216 + id % 16777216 WHERE id = :cert_id

-- name: set_auto_renew
-- Lets the certificate be renewed by itself, or not.
UPDATE cert_records SET auto_renew = :auto_renew, renew_at = :renew_at, updated_at = :now_ms WHERE id = :cert_id

-- name: renewable
-- Whether the certificate can be issued again: it has an account that is bound to an authority.
SELECT 1 AS found FROM cert_records r JOIN acme_accounts t ON t.id = r.acct_id
WHERE r.id = :cert_id AND r.status = 'issued' AND t.ca_id IS NOT NULL

-- name: get
-- The certificate, if it belongs to the user.
SELECT r.*,
       (SELECT count(*) FROM cert_record_devices c JOIN user_devices d ON d.id = c.device_id
        WHERE c.cert_record_id = r.id AND d.revoked_at IS NULL) AS devices_count
FROM cert_records r WHERE r.id = :cert_id AND r.user_id = :user_id

-- name: list_of_user
-- A page of the user's certificates, without their PEM texts.
SELECT r.id, r.domain_name, r.sans, r.acct_id, r.status, r.serial, r.issuer, r.not_before, r.not_after,
       r.created_at, r.updated_at, r.revoked_at, r.auto_renew,
       r.organization, r.organizational_unit, r.country, r.state, r.locality,
       (SELECT count(*) FROM cert_record_devices c JOIN user_devices d ON d.id = c.device_id
        WHERE c.cert_record_id = r.id AND d.revoked_at IS NULL) AS devices_count
FROM cert_records r WHERE r.user_id = :user_id AND r.id > :after ORDER BY r.id LIMIT :limit

-- name: find
-- Certificates with this id, domain name or serial number, each with a device that has it.
SELECT r.id, r.user_id, r.domain_name, r.status, r.serial,
       (SELECT min(c.device_id) FROM cert_record_devices c WHERE c.cert_record_id = r.id) AS device_id
FROM cert_records r
WHERE r.id IN (
    SELECT id FROM cert_records WHERE id = :cert_id
    UNION SELECT id FROM cert_records WHERE domain_name = :text
    UNION SELECT id FROM cert_records WHERE serial = :text)
ORDER BY r.id DESC LIMIT :limit

-- name: revoke
-- Revokes a certificate and drops its keys, which are no longer needed.
UPDATE cert_records
SET status = 'revoked', revoked_at = :now_ms, updated_at = :now_ms, renew_at = NULL, expiry_key = NULL,
    renewal_failures = 0,
    enc_privkey = NULL, privkey_nonce = NULL, privkey_tag = NULL, sealed_data_key = NULL
WHERE id = :cert_id AND status <> 'revoked'
