-- name: own_miners
-- The miners of this list that belong to the site.
SELECT id FROM edge_miners WHERE site_id = :site_id AND id IN (SELECT value FROM json_each(:miner_ids))

-- name: insert_event
-- Stores an event, unless this collector has reported it before.
INSERT INTO safety_events (site_id, device_id, miner_id, action, reason, temp_max, ts, snapshot_json, received_at,
    miner_known)
VALUES (:site_id, :device_id, :miner_id, :action, :reason, :temp_max, :ts, :snapshot_json, :received_at,
    :miner_known)
ON CONFLICT (device_id, miner_id, action, ts) DO NOTHING

-- name: events
-- A page of all events, newest first.
SELECT * FROM safety_events
WHERE id < :before AND ts >= :since_ms AND ts < :until_ms AND (CAST(:miner_id AS BIGINT) IS NULL OR miner_id = :miner_id)
    AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id) AND (CAST(:action AS TEXT) IS NULL OR action = :action)
    AND (CAST(:miner_known AS BIGINT) IS NULL OR miner_known = :miner_known) AND CAST(:site_id AS BIGINT) IS NULL
    AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id DESC LIMIT :limit

-- name: events_of_site
-- A page of a site's events, newest first.
SELECT * FROM safety_events
WHERE site_id = :site_id AND id < :before AND ts >= :since_ms AND ts < :until_ms
    AND (CAST(:miner_id AS BIGINT) IS NULL OR miner_id = :miner_id) AND (CAST(:device_id AS BIGINT) IS NULL OR device_id = :device_id)
    AND (CAST(:action AS TEXT) IS NULL OR action = :action)
    AND (CAST(:miner_known AS BIGINT) IS NULL OR miner_known = :miner_known)
    AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id DESC LIMIT :limit
