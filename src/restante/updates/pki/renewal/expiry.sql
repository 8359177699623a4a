-- name: counts
-- How many renewals failed, how many certificates end soon without a renewal, and how many authorities end soon. Each
-- count examines a bounded number of rows.
SELECT
    (SELECT COUNT(*) FROM (SELECT 1 FROM cert_records WHERE renewal_failures > 0
        AND (CAST(:users AS TEXT) IS NULL OR user_id IN (SELECT value FROM json_each(:users))) LIMIT 1000) AS f) AS failed,
    (SELECT COUNT(*) FROM (SELECT 1 FROM cert_records WHERE expiry_key < :certificate_key AND renew_at IS NULL
        AND (CAST(:users AS TEXT) IS NULL OR user_id IN (SELECT value FROM json_each(:users))) LIMIT 1000) AS c)
        AS certificates,
    (SELECT COUNT(*) FROM (SELECT 1 FROM certificate_authorities WHERE expiry_key < :authority_key
        AND (CAST(:users AS TEXT) IS NULL OR user_id IN (SELECT value FROM json_each(:users))) LIMIT 1000) AS a)
        AS authorities

-- name: of_certificate
-- One issued certificate.
SELECT id AS certificate_id, user_id, domain_name, serial, issuer, not_after, auto_renew, renew_at, renewal_failures,
       renewal_failed_at, renewal_error,
       (SELECT COUNT(*) FROM cert_record_devices AS c WHERE c.cert_record_id = cert_records.id) AS devices_count
FROM cert_records WHERE id = :certificate_id AND expiry_key IS NOT NULL
