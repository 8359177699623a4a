-- name: places
-- Which of these miners are the site's, and where the history of each stands.
SELECT m.id AS miner_id, l.ts, l.samples, l.slot
FROM edge_miners m LEFT JOIN telemetry_latest l ON l.miner_id = m.id
WHERE m.site_id = :site_id AND m.id IN (SELECT value FROM json_each(:miner_ids))

-- name: put_latest
-- A miner's newest record.
INSERT INTO telemetry_latest (miner_id, ts, received_at, samples, slot, record)
VALUES (:miner_id, :ts, :received_at, :samples, :slot, :record)
ON CONFLICT (miner_id) DO UPDATE SET ts = excluded.ts, received_at = excluded.received_at,
    samples = excluded.samples, slot = excluded.slot, record = excluded.record

-- name: put_samples
-- Records behind the newest have taken slots too.
UPDATE telemetry_latest SET samples = :samples WHERE miner_id = :miner_id

-- name: put_history
-- A record in its slot, in place of the one that was there a round before.
INSERT INTO telemetry_history (slot, miner_id, ts, record) VALUES (:slot, :miner_id, :ts, :record)
ON CONFLICT (slot, miner_id) DO UPDATE SET ts = excluded.ts, record = excluded.record

-- name: slots_by_time
-- Where the last records taken of a miner are, to find the one that is sent again.
WITH RECURSIVE back (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM back WHERE n + 1 < :looked)
SELECT h.ts, h.slot FROM back
JOIN telemetry_history h ON h.slot = (:samples - 1 - back.n) % :keep AND h.miner_id = :miner_id

-- name: history
-- A miner's records, newest first.
WITH RECURSIVE slots (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM slots WHERE slot + 1 < :keep)
SELECT h.ts, h.record FROM slots JOIN telemetry_history h ON h.slot = slots.slot AND h.miner_id = :miner_id
ORDER BY h.ts DESC LIMIT :limit

-- name: latest
-- A miner's newest record.
SELECT m.id AS miner_id, m.site_id, l.ts, l.received_at, l.record
FROM edge_miners m LEFT JOIN telemetry_latest l ON l.miner_id = m.id WHERE m.id = :miner_id

-- name: latest_of_site
-- The newest records of a site's miners, a page at a time.
SELECT m.id AS miner_id, m.site_id, l.ts, l.received_at, l.record
FROM edge_miners m JOIN telemetry_latest l ON l.miner_id = m.id
WHERE m.site_id = :site_id AND m.id > :after ORDER BY m.id LIMIT :limit

-- name: forget_beyond
-- What lies beyond a ring that was made smaller.
DELETE FROM telemetry_history WHERE (slot, miner_id) IN
    (SELECT slot, miner_id FROM telemetry_history WHERE slot >= :keep LIMIT :limit)
