-- name: insert_key
-- Stores the key that signs from now on.
INSERT INTO signing_keys (kid, sealed_key, created_at) VALUES (:kid, :sealed_key, :now_ms)

-- name: insert_first_key
-- Only if no key signs: two processes that start at once on an empty table need one key.
INSERT INTO signing_keys (kid, sealed_key, created_at)
SELECT :kid, :sealed_key, :now_ms WHERE NOT EXISTS (SELECT 1 FROM signing_keys WHERE verifies_until IS NULL)

-- name: retire_keys
-- Lets the keys that signed until now verify until their last tokens have expired.
UPDATE signing_keys SET verifies_until = :verifies_until WHERE verifies_until IS NULL OR verifies_until > :verifies_until

-- name: verifying_keys
-- Newest first: the first one signs.
SELECT kid, sealed_key, verifies_until FROM signing_keys
WHERE verifies_until IS NULL OR verifies_until > :now_ms
ORDER BY id DESC

-- name: delete_retired
-- Deletes keys that no longer verify: they are useful to thieves only.
DELETE FROM signing_keys WHERE verifies_until <= :now_ms

-- name: newest_key
-- The key that the database's master key must be able to open.
SELECT kid, sealed_key FROM signing_keys ORDER BY id DESC LIMIT 1

-- name: any_sealed
-- A row if any table has a value sealed under a master key: then no other master key may be made.
SELECT 1 AS sealed
WHERE EXISTS (SELECT 1 FROM signing_keys)
   OR EXISTS (SELECT 1 FROM derived_keys)
   OR EXISTS (SELECT 1 FROM certificate_authorities WHERE sealed_key IS NOT NULL)
   OR EXISTS (SELECT 1 FROM cert_records WHERE sealed_data_key IS NOT NULL)
   OR EXISTS (SELECT 1 FROM edge_devices)
   OR EXISTS (SELECT 1 FROM event_signing_keys)
   OR EXISTS (SELECT 1 FROM event_receivers WHERE sealed_authorization IS NOT NULL)
   OR EXISTS (SELECT 1 FROM automation_rules WHERE sealed_params IS NOT NULL)
   OR EXISTS (SELECT 1 FROM miner_commands WHERE sealed_params IS NOT NULL)
   OR EXISTS (SELECT 1 FROM jobs WHERE sealed_params IS NOT NULL)
   OR EXISTS (SELECT 1 FROM rollouts WHERE sealed_params IS NOT NULL)
