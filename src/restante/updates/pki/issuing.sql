-- name: issuing_facts
-- The user's certificate with the facts that its next issue depends on.
SELECT r.status, r.sans, r.issue_number, r.acct_id,
       r.organization, r.organizational_unit, r.country, r.state, r.locality,
       t.ca_id, t.cert_valid_seconds, t.leaf_key_algorithm, t.leaf_ec_curve, t.leaf_rsa_bits, a.status AS ca_status,
       a.certificate_der AS ca_certificate_der, a.sealed_key AS ca_sealed_key
FROM cert_records r
LEFT JOIN acme_accounts t ON t.id = r.acct_id
LEFT JOIN certificate_authorities a ON a.id = t.ca_id
WHERE r.id = :cert_id AND r.user_id = :user_id

-- name: store
-- Stores the certificate's new issue.
UPDATE cert_records
SET status = 'issued', issue_number = :issue_number, serial = :serial, issuer = :issuer,
    not_before = :not_before, not_after = :not_after, certificate_pem = :certificate_pem, chain_pem = :chain_pem,
    enc_privkey = :enc_privkey, privkey_nonce = :privkey_nonce, privkey_tag = :privkey_tag,
    sealed_data_key = :sealed_data_key, updated_at = :now_ms,
    renew_at = CASE WHEN auto_renew = 1 THEN CAST(:renew_at AS BIGINT) END,
    renewal_failures = 0, renewal_failed_at = NULL, renewal_error = NULL,
    expiry_key = CAST(:not_after AS BIGINT) / 1000 * 16777216 + id % 16777216
WHERE id = :cert_id
