-- name: insert_site
-- A new site; no row if the name is taken.
INSERT INTO edge_sites (name, created_at) VALUES (:name, :now_ms) ON CONFLICT (name) DO NOTHING RETURNING id

-- name: insert_zone
-- A new zone; no row if the site has one of this name.
INSERT INTO edge_zones (site_id, name, is_default, created_at) VALUES (:site_id, :name, :is_default, :now_ms)
ON CONFLICT (site_id, name) DO NOTHING
RETURNING id, site_id, name, is_default, created_at

-- name: site
-- One site with its default zone.
SELECT s.id, s.name, s.created_at, z.id AS default_zone_id
FROM edge_sites s JOIN edge_zones z ON z.site_id = s.id AND z.is_default = 1
WHERE s.id = :site_id

-- name: sites
-- A page of all sites.
SELECT s.id, s.name, s.created_at, z.id AS default_zone_id
FROM edge_sites s JOIN edge_zones z ON z.site_id = s.id AND z.is_default = 1
WHERE s.id > :after ORDER BY s.id LIMIT :limit

-- name: zones
-- A page of a site's zones, or of all.
SELECT id, site_id, name, is_default, created_at FROM edge_zones
WHERE id > :after AND (CAST(:site_id AS BIGINT) IS NULL OR site_id = :site_id) ORDER BY id LIMIT :limit

-- name: zone_of_site
-- Whether the zone is the site's.
SELECT id FROM edge_zones WHERE id = :zone_id AND site_id = :site_id
