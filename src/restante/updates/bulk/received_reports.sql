-- name: outcomes
-- How many devices of a job have confirmed or failed what it sent them.
SELECT outcome, COUNT(*) AS devices FROM (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM device_signal_outcomes o
                             WHERE o.device_id = i.item AND o.outcome = 'failed' AND o.at >= i.at) THEN 'failed'
                WHEN p.received_ms >= i.at THEN 'received'
                ELSE 'waiting' END AS outcome
    FROM job_items i LEFT JOIN device_presence p ON p.device_id = i.item
    WHERE i.job = :job AND i.state = 'done') AS items
GROUP BY outcome

-- name: laggards
-- Devices of a rollout that have not confirmed what it sent them, or failed, or were refused it.
SELECT item, wave, outcome, name, device_public_id, error FROM (
    SELECT i.item, j.wave, d.name, d.device_public_id, i.error,
           CASE WHEN i.state = 'failed' THEN 'failed'
                WHEN EXISTS (SELECT 1 FROM device_signal_outcomes o
                             WHERE o.device_id = i.item AND o.outcome = 'failed' AND o.at >= i.at) THEN 'failed'
                WHEN p.received_ms >= i.at THEN 'received'
                ELSE 'waiting' END AS outcome
    FROM job_items i JOIN jobs j ON j.id = i.job JOIN user_devices d ON d.id = i.item
         LEFT JOIN device_presence p ON p.device_id = i.item
    WHERE j.rollout = :rollout AND j.wave > 0 AND i.state <> 'skipped' AND i.item > :after) AS items
WHERE outcome <> 'received' ORDER BY item LIMIT :limit
