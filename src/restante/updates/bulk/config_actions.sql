-- name: outcomes
-- What became of the versions that a job gave to devices. A later version replaces the one of the job.
SELECT outcome, COUNT(*) AS devices FROM (
    SELECT CASE WHEN c.applied_version >= CAST(i.result AS BIGINT) THEN 'applied'
                WHEN c.failed_version >= CAST(i.result AS BIGINT) THEN 'failed'
                WHEN c.version > CAST(i.result AS BIGINT) THEN 'replaced'
                WHEN c.fetched_version >= CAST(i.result AS BIGINT) THEN 'fetched'
                ELSE 'waiting' END AS outcome
    FROM job_items i JOIN device_install_configs c ON c.user_device_id = i.item
    WHERE i.job = :job AND i.state = 'done') AS versions
GROUP BY outcome

-- name: laggards
-- Devices of a rollout that have not applied the version it gave them, and those that were refused it.
SELECT item, wave, outcome, name, device_public_id, detail FROM (
    SELECT i.item, j.wave, d.name, d.device_public_id,
           CASE WHEN i.state = 'failed' THEN 'failed'
                WHEN c.applied_version >= CAST(i.result AS BIGINT) THEN 'applied'
                WHEN c.failed_version >= CAST(i.result AS BIGINT) THEN 'failed'
                WHEN c.version > CAST(i.result AS BIGINT) THEN 'replaced'
                ELSE 'waiting' END AS outcome,
           CASE WHEN i.state = 'failed' THEN i.error
                WHEN c.failed_version >= CAST(i.result AS BIGINT) THEN c.failure
                WHEN c.fetched_version >= CAST(i.result AS BIGINT) THEN 'it has fetched version ' || i.result || ' and not reported about it'
                ELSE 'it has not fetched version ' || i.result END AS detail
    FROM job_items i JOIN jobs j ON j.id = i.job JOIN user_devices d ON d.id = i.item
         LEFT JOIN device_install_configs c ON c.user_device_id = i.item
    WHERE j.rollout = :rollout AND j.wave > 0 AND i.state <> 'skipped' AND i.item > :after) AS items
WHERE outcome IN ('waiting', 'failed') ORDER BY item LIMIT :limit
