-- name: miners_after
-- The next active miners that match the filter.
SELECT id, site_id, zone_id, name, created_at, retired_at, replaced_by FROM edge_miners
WHERE id > :after AND retired_at IS NULL
  AND (CAST(:site_id AS BIGINT) IS NULL OR site_id = :site_id)
  AND (CAST(:zone_id AS BIGINT) IS NULL OR zone_id = :zone_id)
  AND (CAST(:miner_ids AS TEXT) IS NULL OR id IN (SELECT value FROM json_each(:miner_ids)))
  AND (CAST(:tags AS TEXT) IS NULL OR :tag_count = (
    SELECT COUNT(*) FROM tags t WHERE t.kind = 'miner' AND t.resource_id = edge_miners.id
      AND REPLACE(:tags, ',' || t.tag || ',', '') <> :tags))
  AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id LIMIT :limit

-- name: count
-- How many active miners match the filter.
SELECT COUNT(*) AS miners FROM edge_miners
WHERE retired_at IS NULL AND (CAST(:site_id AS BIGINT) IS NULL OR site_id = :site_id)
  AND (CAST(:zone_id AS BIGINT) IS NULL OR zone_id = :zone_id)
  AND (CAST(:miner_ids AS TEXT) IS NULL OR id IN (SELECT value FROM json_each(:miner_ids)))
  AND (CAST(:tags AS TEXT) IS NULL OR :tag_count = (
    SELECT COUNT(*) FROM tags t WHERE t.kind = 'miner' AND t.resource_id = edge_miners.id
      AND REPLACE(:tags, ',' || t.tag || ',', '') <> :tags))
  AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))

-- name: by_ids
-- Miners with these ids.
SELECT id, site_id, zone_id, name, created_at, retired_at, replaced_by FROM edge_miners
WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id

-- name: newest
-- The highest id.
SELECT MAX(id) AS id FROM edge_miners
