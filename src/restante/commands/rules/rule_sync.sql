-- name: newest
-- The newest record of each of these miners.
SELECT miner_id, ts, received_at, record FROM telemetry_latest
WHERE miner_id IN (SELECT value FROM json_each(:miner_ids))
