-- name: sites
-- The names of these sites.
SELECT id, name FROM edge_sites WHERE id IN (SELECT value FROM json_each(:ids))

-- name: zones
-- The names of these zones.
SELECT id, name FROM edge_zones WHERE id IN (SELECT value FROM json_each(:ids))

-- name: miners
-- The names of these miners.
SELECT id, name FROM edge_miners WHERE id IN (SELECT value FROM json_each(:ids))
