-- name: insert_miner
-- A new miner, with the next id.
INSERT INTO edge_miners (site_id, zone_id, name, created_at) VALUES (:site_id, :zone_id, :name, :now_ms)
RETURNING id, site_id, zone_id, name, created_at

-- name: insert_miner_with_id
-- A new miner, with the id its operator gave; no row if that id is taken.
INSERT INTO edge_miners (id, site_id, zone_id, name, created_at)
VALUES (:miner_id, :site_id, :zone_id, :name, :now_ms)
ON CONFLICT (id) DO NOTHING
RETURNING id, site_id, zone_id, name, created_at

-- name: insert_miner_with_id@postgres
-- There ids come from a counter that knows nothing of ids that were given: it goes on behind this one.
WITH made AS (
    INSERT INTO edge_miners (id, site_id, zone_id, name, created_at)
    VALUES (:miner_id, :site_id, :zone_id, :name, :now_ms)
    ON CONFLICT (id) DO NOTHING
    RETURNING id, site_id, zone_id, name, created_at
)
SELECT made.id, made.site_id, made.zone_id, made.name, made.created_at,
    CASE WHEN made.id > counter.last_value THEN setval('edge_miners_id_seq', made.id) END AS counted
FROM made, edge_miners_id_seq AS counter

-- name: miners
-- A page of all miners.
SELECT id, site_id, zone_id, name, created_at FROM edge_miners
WHERE id > :after AND (CAST(:zone_id AS BIGINT) IS NULL OR zone_id = :zone_id) ORDER BY id LIMIT :limit

-- name: miners_of_site
-- A page of a site's miners.
SELECT id, site_id, zone_id, name, created_at FROM edge_miners
WHERE site_id = :site_id AND id > :after AND (CAST(:zone_id AS BIGINT) IS NULL OR zone_id = :zone_id) ORDER BY id LIMIT :limit

-- name: miner_of_site
-- The miner, if it is the site's.
SELECT id, zone_id FROM edge_miners WHERE id = :miner_id AND site_id = :site_id

-- name: targets
-- All miners that a command for a whole site or zone is for.
SELECT id, zone_id FROM edge_miners
WHERE site_id = :site_id AND (CAST(:zone_id AS BIGINT) IS NULL OR zone_id = :zone_id) ORDER BY id
