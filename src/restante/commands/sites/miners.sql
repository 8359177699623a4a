-- name: insert_miner
-- Adds a miner with the next id: one more than the highest, or than the next lower one that 2^53 leaves room for. The
-- index is read from its end, so this is one step unless an operator has chosen the highest ids.
INSERT INTO edge_miners (id, site_id, zone_id, name, created_at)
VALUES (COALESCE((
    SELECT m.id + 1 FROM edge_miners AS m
    WHERE m.id < 9007199254740992 AND (SELECT taken.id FROM edge_miners AS taken WHERE taken.id = m.id + 1) IS NULL
    ORDER BY m.id DESC LIMIT 1
), 1), :site_id, :zone_id, :name, :now_ms)
RETURNING id, site_id, zone_id, name, created_at, retired_at, replaced_by

-- name: insert_miner_with_id
-- Adds a miner with the operator's own id; returns no row if that id is taken.
INSERT INTO edge_miners (id, site_id, zone_id, name, created_at)
VALUES (:miner_id, :site_id, :zone_id, :name, :now_ms)
ON CONFLICT (id) DO NOTHING
RETURNING id, site_id, zone_id, name, created_at, retired_at, replaced_by

-- name: miner
-- One miner.
SELECT id, site_id, zone_id, name, created_at, retired_at, replaced_by FROM edge_miners WHERE id = :miner_id

-- name: miner_of_site
-- The miner, if it belongs to the site and is not retired.
SELECT id, zone_id FROM edge_miners WHERE id = :miner_id AND site_id = :site_id AND retired_at IS NULL

-- name: targets
-- All miners of a site or zone: the targets of a command for the whole site or zone.
SELECT id, zone_id FROM edge_miners
WHERE site_id = :site_id AND retired_at IS NULL AND (CAST(:zone_id AS BIGINT) IS NULL OR zone_id = :zone_id) ORDER BY id
