-- name: newest
-- The newest record of each of these miners.
SELECT miner_id, ts, received_at, record FROM telemetry_latest
WHERE miner_id IN (SELECT value FROM json_each(:miner_ids))

-- name: newest@postgres
-- The other engine takes a list apart under another name.
SELECT miner_id, ts, received_at, record FROM telemetry_latest
WHERE miner_id IN (SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST(:miner_ids AS JSON)))
