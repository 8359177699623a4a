-- name: own_miners
-- Which of these miners are the site's.
SELECT id FROM edge_miners WHERE site_id = :site_id AND id IN (SELECT value FROM json_each(:miner_ids))

-- name: insert_event
-- An event, unless this collector has told of it before.
INSERT INTO safety_events (site_id, device_id, miner_id, action, reason, temp_max, ts, snapshot_json, received_at)
VALUES (:site_id, :device_id, :miner_id, :action, :reason, :temp_max, :ts, :snapshot_json, :received_at)
ON CONFLICT (device_id, miner_id, action, ts) DO NOTHING

-- name: events
-- A page of all events, newest first.
SELECT * FROM safety_events
WHERE id < :before AND ts >= :since_ms AND ts < :until_ms AND (CAST(:miner_id AS BIGINT) IS NULL OR miner_id = :miner_id)
    AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id) AND (CAST(:action AS TEXT) IS NULL OR action = :action)
    AND CAST(:site_id AS BIGINT) IS NULL
ORDER BY id DESC LIMIT :limit

-- name: events_of_site
-- A page of a site's events, newest first.
SELECT * FROM safety_events
WHERE site_id = :site_id AND id < :before AND ts >= :since_ms AND ts < :until_ms
    AND (CAST(:miner_id AS BIGINT) IS NULL OR miner_id = :miner_id) AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id)
    AND (CAST(:action AS TEXT) IS NULL OR action = :action)
ORDER BY id DESC LIMIT :limit
