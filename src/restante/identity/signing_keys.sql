-- name: insert_key
-- The newest key signs from now on.
INSERT INTO signing_keys (kid, sealed_key, created_at) VALUES (:kid, :sealed_key, :now_ms)

-- name: insert_first_key
-- Where two processes start at once on an empty table, one key is enough.
INSERT INTO signing_keys (kid, sealed_key, created_at)
SELECT :kid, :sealed_key, :now_ms WHERE NOT EXISTS (SELECT 1 FROM signing_keys WHERE verifies_until IS NULL)

-- name: retire_keys
-- Those that signed until now verify for as long as their last tokens live.
UPDATE signing_keys SET verifies_until = :verifies_until WHERE verifies_until IS NULL OR verifies_until > :verifies_until

-- name: verifying_keys
-- Newest first: the first one signs.
SELECT kid, sealed_key, verifies_until FROM signing_keys
WHERE verifies_until IS NULL OR verifies_until > :now_ms
ORDER BY id DESC

-- name: delete_retired
-- A key that verifies nothing any more is no use to anybody but a thief.
DELETE FROM signing_keys WHERE verifies_until <= :now_ms

-- name: newest_key
-- The one that a database's master key must open.
SELECT kid, sealed_key FROM signing_keys ORDER BY id DESC LIMIT 1

-- name: any_sealed
-- A row if anything is sealed under a master key, in whichever table: then it must not be given another one.
SELECT 1 AS sealed
WHERE EXISTS (SELECT 1 FROM signing_keys)
   OR EXISTS (SELECT 1 FROM certificate_authorities WHERE sealed_key IS NOT NULL)
   OR EXISTS (SELECT 1 FROM cert_records WHERE sealed_data_key IS NOT NULL)
   OR EXISTS (SELECT 1 FROM edge_devices)
   OR EXISTS (SELECT 1 FROM event_signing_keys)
   OR EXISTS (SELECT 1 FROM event_receivers WHERE sealed_authorization IS NOT NULL)
