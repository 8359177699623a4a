-- name: due
-- The certificates whose renewal is due.
SELECT id, user_id, domain_name, not_before, not_after FROM cert_records
WHERE renew_at <= :now_ms AND status = 'issued' ORDER BY renew_at, id LIMIT :limit

-- name: lease
-- Hides a certificate from other nodes while this one renews it.
UPDATE cert_records SET renew_at = :renew_at WHERE id = :id

-- name: failures
-- How often the renewal of a certificate has failed, and why; no row if it is not to be renewed any more.
SELECT renewal_failures, renewal_error FROM cert_records
WHERE id = :cert_id AND status = 'issued' AND auto_renew = 1

-- name: fail
-- Keeps the error, and when to try again.
UPDATE cert_records
SET renewal_failures = renewal_failures + 1, renewal_failed_at = :now_ms, renewal_error = :error, renew_at = :renew_at
WHERE id = :cert_id
