-- name: commands_after
-- The next commands that match the filter.
SELECT id FROM miner_commands
WHERE id > :after AND (CAST(:site_id AS BIGINT) IS NULL OR site_id = :site_id)
  AND (CAST(:zone_id AS BIGINT) IS NULL OR zone_id = :zone_id)
  AND (CAST(:miner_id AS BIGINT) IS NULL OR miner_id = :miner_id)
  AND (CAST(:rule_id AS BIGINT) IS NULL OR rule_id = :rule_id)
  AND (CAST(:command_type AS TEXT) IS NULL OR command_type = :command_type)
  AND (CAST(:statuses AS TEXT) IS NULL OR REPLACE(:statuses, ',' || status || ',', '') <> :statuses)
  AND (CAST(:created_by AS TEXT) IS NULL OR created_by = :created_by)
  AND (CAST(:job_id AS TEXT) IS NULL OR command_id IN (
    SELECT i.result FROM job_items i JOIN jobs j ON j.id = i.job WHERE j.job_id = :job_id))
  AND (CAST(:created_after AS BIGINT) IS NULL OR created_at >= :created_after)
  AND (CAST(:created_before AS BIGINT) IS NULL OR created_at < :created_before)
  AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id LIMIT :limit

-- name: count
-- How many commands match the filter.
SELECT COUNT(*) AS commands FROM miner_commands
WHERE (CAST(:site_id AS BIGINT) IS NULL OR site_id = :site_id)
  AND (CAST(:zone_id AS BIGINT) IS NULL OR zone_id = :zone_id)
  AND (CAST(:miner_id AS BIGINT) IS NULL OR miner_id = :miner_id)
  AND (CAST(:rule_id AS BIGINT) IS NULL OR rule_id = :rule_id)
  AND (CAST(:command_type AS TEXT) IS NULL OR command_type = :command_type)
  AND (CAST(:statuses AS TEXT) IS NULL OR REPLACE(:statuses, ',' || status || ',', '') <> :statuses)
  AND (CAST(:created_by AS TEXT) IS NULL OR created_by = :created_by)
  AND (CAST(:job_id AS TEXT) IS NULL OR command_id IN (
    SELECT i.result FROM job_items i JOIN jobs j ON j.id = i.job WHERE j.job_id = :job_id))
  AND (CAST(:created_after AS BIGINT) IS NULL OR created_at >= :created_after)
  AND (CAST(:created_before AS BIGINT) IS NULL OR created_at < :created_before)
  AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))

-- name: by_ids
-- Commands with these ids.
SELECT * FROM miner_commands WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id

-- name: newest
-- The highest id.
SELECT MAX(id) AS id FROM miner_commands
