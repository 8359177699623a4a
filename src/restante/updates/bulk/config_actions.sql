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
