-- name: find_collector
-- The owner of a token that was not revoked.
SELECT id, site_id, zone_id FROM edge_devices WHERE token_hash = :token_hash AND revoked_at IS NULL
