-- name: authority
-- An authority and its newest list.
SELECT a.certificate_der, a.sealed_key, l.revision, l.listed_revision, l.number, l.der, l.this_update, l.next_update
FROM certificate_authorities a LEFT JOIN revocation_lists l ON l.ca_id = a.id
WHERE a.id = :ca_id AND REPLACE(a.serial, ':', '') = :serial

-- name: revoked
-- The revoked serials that had not ended by this time.
SELECT serial, revoked_at, reason FROM issued_certificates
WHERE ca_id = :ca_id AND revoked_at IS NOT NULL AND not_after > :ended_after ORDER BY revoked_at, serial

-- name: store
-- Stores a list if its number is the next one.
INSERT INTO revocation_lists (ca_id, number, listed_revision, der, this_update, next_update)
VALUES (:ca_id, :number, :revision, :der, :this_update, :next_update)
ON CONFLICT (ca_id) DO UPDATE
SET number = excluded.number, listed_revision = excluded.listed_revision, der = excluded.der,
    this_update = excluded.this_update, next_update = excluded.next_update
WHERE revocation_lists.number < excluded.number

-- name: stored
-- The newest list of an authority.
SELECT number, der, this_update, next_update FROM revocation_lists WHERE ca_id = :ca_id
