-- name: find_collector
-- Whose token this is, unless it was revoked.
SELECT id, site_id, zone_id FROM edge_devices WHERE token_hash = :token_hash AND revoked_at IS NULL
