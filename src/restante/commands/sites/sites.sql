-- name: insert_site
-- Adds a site; returns no row if the name is taken.
INSERT INTO edge_sites (name, created_at) VALUES (:name, :now_ms) ON CONFLICT (name) DO NOTHING RETURNING id

-- name: insert_zone
-- Adds a zone; returns no row if the site already has one with this name.
INSERT INTO edge_zones (site_id, name, is_default, created_at) VALUES (:site_id, :name, :is_default, :now_ms)
ON CONFLICT (site_id, name) DO NOTHING
RETURNING id, site_id, name, is_default, created_at, retired_at

-- name: site
-- One site with its default zone.
SELECT s.id, s.name, s.created_at, s.retired_at, z.id AS default_zone_id
FROM edge_sites s JOIN edge_zones z ON z.site_id = s.id AND z.is_default = 1
WHERE s.id = :site_id

-- name: sites
-- A page of all sites.
SELECT s.id, s.name, s.created_at, s.retired_at, z.id AS default_zone_id
FROM edge_sites s JOIN edge_zones z ON z.site_id = s.id AND z.is_default = 1
WHERE s.id > :after AND (CAST(:sites AS TEXT) IS NULL OR s.id IN (SELECT value FROM json_each(:sites)))
ORDER BY s.id LIMIT :limit

-- name: zones
-- A page of the zones of one site, or of all sites.
SELECT id, site_id, name, is_default, created_at, retired_at FROM edge_zones
WHERE id > :after AND (CAST(:site_id AS BIGINT) IS NULL OR site_id = :site_id)
    AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id LIMIT :limit

-- name: zone
-- One zone.
SELECT id, site_id, name, is_default, created_at, retired_at FROM edge_zones WHERE id = :zone_id

-- name: zone_of_site
-- Whether the zone belongs to the site and is not retired.
SELECT id FROM edge_zones WHERE id = :zone_id AND site_id = :site_id AND retired_at IS NULL
