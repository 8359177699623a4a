-- name: add
-- Records a serial that an authority has issued.
INSERT INTO issued_certificates (ca_id, serial, cert_id, not_after) VALUES (:ca_id, :serial, :cert_id, :not_after)

-- name: authorities_of
-- The authorities of serials that are about to be revoked, always in the same order.
SELECT DISTINCT ca_id FROM issued_certificates
WHERE cert_id = :cert_id AND revoked_at IS NULL AND not_after > :now_ms ORDER BY ca_id

-- name: count_revocation
-- Makes the authority's revocation list out of date.
INSERT INTO revocation_lists (ca_id, revision) VALUES (:ca_id, 1)
ON CONFLICT (ca_id) DO UPDATE SET revision = revocation_lists.revision + 1

-- name: revoke
-- Revokes the serials of a certificate that have not ended.
UPDATE issued_certificates SET revoked_at = :now_ms, reason = :reason
WHERE cert_id = :cert_id AND revoked_at IS NULL AND not_after > :now_ms

-- name: delete_ended
-- Deletes serials that ended long ago.
DELETE FROM issued_certificates WHERE (ca_id, serial) IN (
    SELECT ca_id, serial FROM issued_certificates WHERE not_after < :before_ms ORDER BY not_after LIMIT :limit)
