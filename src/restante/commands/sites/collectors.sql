-- name: insert_collector
-- Adds a collector; returns no row if the site already has one with this name.
INSERT INTO edge_devices (site_id, zone_id, device_name, token_hash, hmac_secret, created_at)
VALUES (:site_id, :zone_id, :device_name, :token_hash, :hmac_secret, :now_ms)
ON CONFLICT (site_id, device_name) DO NOTHING
RETURNING id

-- name: collector
-- One collector, without its secrets.
SELECT id, site_id, zone_id, device_name, created_at, revoked_at, last_seen_at, old_secret_until
FROM edge_devices WHERE id = :device_id

-- name: put_token
-- Replaces a collector's token.
UPDATE edge_devices SET token_hash = :token_hash WHERE id = :device_id

-- name: put_secret
-- Replaces a collector's secret and keeps the old one for the overlap.
UPDATE edge_devices
SET old_hmac_secret = hmac_secret, old_secret_until = :old_secret_until, hmac_secret = :hmac_secret
WHERE id = :device_id

-- name: revoke
-- Revokes a collector.
UPDATE edge_devices SET revoked_at = :now_ms WHERE id = :device_id

-- name: secrets_of
-- The secrets that verify a collector's ACKs.
SELECT hmac_secret, old_hmac_secret, old_secret_until FROM edge_devices WHERE id = :device_id

-- name: credentials
-- Token digest and signing secret of the collectors that are not revoked, for dispatching commands.
SELECT id, token_hash, hmac_secret FROM edge_devices
WHERE id IN (SELECT value FROM json_each(:device_ids)) AND revoked_at IS NULL

-- name: last_seen
-- Moves a collector's last-seen time forward, never back.
UPDATE edge_devices SET last_seen_at = :seen_ms
WHERE id = :device_id AND (last_seen_at IS NULL OR last_seen_at < :seen_ms)
