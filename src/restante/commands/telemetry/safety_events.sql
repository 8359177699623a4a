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
