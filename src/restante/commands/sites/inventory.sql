-- name: rename_site
-- Gives a site another name, unless another site has it.
UPDATE edge_sites SET name = :name
WHERE id = :id AND NOT EXISTS (SELECT 1 FROM edge_sites AS other WHERE other.name = :name AND other.id <> :id)

-- name: rename_zone
-- Gives a zone another name, unless another zone of the site has it.
UPDATE edge_zones SET name = :name
WHERE id = :id AND NOT EXISTS (
    SELECT 1 FROM edge_zones AS other
    WHERE other.site_id = edge_zones.site_id AND other.name = :name AND other.id <> :id
)

-- name: rename_miner
-- Gives a miner another name.
UPDATE edge_miners SET name = :name WHERE id = :id

-- name: move_miner
-- Moves a miner to a zone.
UPDATE edge_miners SET site_id = :site_id, zone_id = :zone_id WHERE id = :id

-- name: retire_miner
-- Retires a miner.
UPDATE edge_miners SET retired_at = :now_ms, replaced_by = :replaced_by WHERE id = :id

-- name: retire_zone
-- Retires a zone.
UPDATE edge_zones SET retired_at = :now_ms WHERE id = :id

-- name: retire_zones
-- Retires the zones of a site that are not retired yet.
UPDATE edge_zones SET retired_at = :now_ms WHERE site_id = :site_id AND retired_at IS NULL

-- name: retire_site
-- Retires a site.
UPDATE edge_sites SET retired_at = :now_ms WHERE id = :id

-- name: site_use
-- How many active miners and collectors, and open commands, a site has.
SELECT (SELECT COUNT(*) FROM edge_miners WHERE site_id = :id AND retired_at IS NULL) AS miners,
       (SELECT COUNT(*) FROM edge_devices WHERE site_id = :id AND revoked_at IS NULL) AS collectors,
       (SELECT COUNT(*) FROM miner_commands WHERE site_id = :id AND finished_at IS NULL) AS commands

-- name: zone_use
-- The same for a zone. Open commands are read from the index of the zone's site.
SELECT (SELECT COUNT(*) FROM edge_miners WHERE zone_id = :id AND retired_at IS NULL) AS miners,
       (SELECT COUNT(*) FROM edge_devices AS d JOIN edge_zones AS z ON z.id = :id
        WHERE d.site_id = z.site_id AND d.zone_id = :id AND d.revoked_at IS NULL) AS collectors,
       (SELECT COUNT(*) FROM miner_commands AS c JOIN edge_zones AS z ON z.id = :id
        WHERE c.site_id = z.site_id AND c.zone_id = :id AND c.finished_at IS NULL) AS commands

-- name: open_commands
-- How many commands for a miner have not ended, also those that wait for approval.
SELECT COUNT(*) AS count FROM miner_commands WHERE miner_id = :miner_id AND finished_at IS NULL

-- name: rules_of_site
-- The rules of a site that name miners.
SELECT id, miner_ids FROM automation_rules WHERE site_id = :site_id AND miner_ids IS NOT NULL ORDER BY id

-- name: set_rule_miners
-- Changes the miners that a rule names.
UPDATE automation_rules SET miner_ids = :miner_ids, updated_at = :now_ms WHERE id = :rule_id
