-- name: registered
-- The miners of this list that are registered at any site.
SELECT id FROM edge_miners WHERE id IN (SELECT value FROM json_each(:miner_ids))

-- name: unknown
-- The unknown miners of the site in this list.
SELECT id, miner_id FROM unknown_miners
WHERE site_id = :site_id AND miner_id IN (SELECT value FROM json_each(:miner_ids))

-- name: count_unknown
-- How many unknown miners the site has.
SELECT count(*) AS miners FROM unknown_miners WHERE site_id = :site_id

-- name: insert_unknown
-- Adds an unknown miner.
INSERT INTO unknown_miners (site_id, miner_id, first_seen_at) VALUES (:site_id, :miner_id, :now_ms) RETURNING id

-- name: count_events
-- How many safety events of unknown miners the site has.
SELECT count(*) AS events FROM safety_events WHERE site_id = :site_id AND miner_known = 0

-- name: link_events
-- The safety events of a miner that is registered now.
UPDATE safety_events SET miner_known = 1 WHERE site_id = :site_id AND miner_id = :miner_id AND miner_known = 0

-- name: delete_unknown
-- The miner is registered now.
DELETE FROM unknown_miners WHERE site_id = :site_id AND miner_id = :miner_id RETURNING id

-- name: link_latest
-- The newest record becomes that of the registered miner.
UPDATE telemetry_latest SET miner_id = :miner_id WHERE miner_id = :key

-- name: link_history
-- The last records become those of the registered miner.
UPDATE telemetry_history SET miner_id = :miner_id
WHERE slot IN (SELECT value FROM json_each(:slots)) AND miner_id = :key
