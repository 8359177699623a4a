-- name: ring_positions
-- The miners of this list that belong to the site, and the position in the ring buffer of each.
SELECT m.id AS key, l.ts, l.samples, l.slot
FROM edge_miners m LEFT JOIN telemetry_latest l ON l.miner_id = m.id
WHERE m.site_id = :site_id AND m.id IN (SELECT value FROM json_each(:miner_ids))

-- name: unknown_ring_positions
-- The position in the ring buffer of each of these unknown miners.
SELECT u.miner_id, -u.id AS key, l.ts, l.samples, l.slot
FROM unknown_miners u LEFT JOIN telemetry_latest l ON l.miner_id = -u.id
WHERE u.id IN (SELECT value FROM json_each(:unknown_ids))

-- name: put_latest
-- A miner's newest record.
INSERT INTO telemetry_latest (miner_id, ts, received_at, samples, slot, record)
VALUES (:miner_id, :ts, :received_at, :samples, :slot, :record)
ON CONFLICT (miner_id) DO UPDATE SET ts = excluded.ts, received_at = excluded.received_at,
    samples = excluded.samples, slot = excluded.slot, record = excluded.record

-- name: put_samples
-- Older records have used slots too: update the count only.
UPDATE telemetry_latest SET samples = :samples WHERE miner_id = :miner_id

-- name: put_history
-- Writes a record into its slot, over the record of the previous round.
INSERT INTO telemetry_history (slot, miner_id, ts, record) VALUES (:slot, :miner_id, :ts, :record)
ON CONFLICT (slot, miner_id) DO UPDATE SET ts = excluded.ts, record = excluded.record

-- name: slots_by_time
-- The slots of a miner's last records, to find one that is sent again.
WITH RECURSIVE back (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM back WHERE n + 1 < :lookback)
SELECT h.ts, h.slot FROM back
JOIN telemetry_history h ON h.slot = (:samples - 1 - back.n) % :history_records AND h.miner_id = :miner_id

-- name: history
-- A miner's records, newest first.
WITH RECURSIVE slots (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM slots WHERE slot + 1 < :history_records)
SELECT h.ts, h.record FROM slots JOIN telemetry_history h ON h.slot = slots.slot AND h.miner_id = :miner_id
ORDER BY h.ts DESC LIMIT :limit

-- name: recent
-- The last records of these miners, oldest first: the ring's slots before the next one.
WITH RECURSIVE back (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM back WHERE n + 1 < :points)
SELECT l.miner_id, h.record
FROM telemetry_latest l CROSS JOIN back
JOIN telemetry_history h ON h.slot = (l.samples - 1 - back.n) % :history_records AND h.miner_id = l.miner_id
WHERE l.miner_id IN (SELECT value FROM json_each(:miner_ids))
ORDER BY l.miner_id, h.ts

-- name: latest
-- A registered miner's newest record.
SELECT m.id AS miner_id, m.id AS key, m.site_id, 1 AS miner_known, l.ts, l.received_at, l.record
FROM edge_miners m LEFT JOIN telemetry_latest l ON l.miner_id = m.id WHERE m.id = :miner_id

-- name: latest_unknown
-- The newest record of a miner that is not registered at the site.
SELECT u.miner_id, -u.id AS key, u.site_id, 0 AS miner_known, l.ts, l.received_at, l.record
FROM unknown_miners u LEFT JOIN telemetry_latest l ON l.miner_id = -u.id
WHERE u.site_id = :site_id AND u.miner_id = :miner_id

-- name: latest_of_site
-- A page of the newest records of a site's miners, registered or not.
SELECT m.id AS miner_id, m.site_id, 1 AS miner_known, l.ts, l.received_at, l.record
FROM edge_miners m JOIN telemetry_latest l ON l.miner_id = m.id
WHERE m.site_id = :site_id AND m.id > :after AND (CAST(:miner_known AS BIGINT) IS NULL OR :miner_known = 1)
UNION ALL
SELECT u.miner_id, u.site_id, 0 AS miner_known, l.ts, l.received_at, l.record
FROM unknown_miners u JOIN telemetry_latest l ON l.miner_id = -u.id
WHERE u.site_id = :site_id AND u.miner_id > :after AND (CAST(:miner_known AS BIGINT) IS NULL OR :miner_known = 0)
ORDER BY miner_id LIMIT :limit

-- name: delete_beyond
-- Deletes rows beyond the end of a ring that was made smaller.
DELETE FROM telemetry_history WHERE (slot, miner_id) IN
    (SELECT slot, miner_id FROM telemetry_history WHERE slot >= :history_records LIMIT :limit)
