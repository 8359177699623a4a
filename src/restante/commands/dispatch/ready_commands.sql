-- name: ready
-- The first commands of each type in each zone: in all zones of the listed sites, and in the listed zones. One seek finds
-- each type, a second one its first commands. So a type whose rate window is full is not read through to find the next.
-- `is_miner_busy`: another command of the miner is leased; never, unless `one_per_miner` is 1.
WITH RECURSIVE present (zone_id, command_type) AS (
    SELECT listed.zone_id, (
        SELECT MIN(command_type) FROM miner_commands
        WHERE zone_id = listed.zone_id AND status = 'pending' AND next_attempt_at IS NULL
    )
    FROM (
        SELECT zone.id AS zone_id FROM json_each(:sites) AS site JOIN edge_zones AS zone ON zone.site_id = site.value
        UNION ALL
        SELECT value FROM json_each(:zones)
    ) AS listed
    UNION ALL
    SELECT zone_id, (
        SELECT MIN(command_type) FROM miner_commands
        WHERE zone_id = present.zone_id AND command_type > present.command_type
            AND status = 'pending' AND next_attempt_at IS NULL
    )
    FROM present WHERE command_type IS NOT NULL
)
SELECT c.rank, c.id, c.command_type, c.command_id, c.site_id, c.zone_id, c.miner_id, c.params, c.sealed_params,
    c.priority, c.expires_at, c.dedupe_key, c.attempt, c.retry_count, c.max_retries, COALESCE(c.approved_at, c.created_at) AS ready_at,
    NULL AS watermark, NULL AS frontier,
    CASE WHEN :one_per_miner = 1 AND EXISTS (
        SELECT 1 FROM miner_commands AS busy INDEXED BY ix_miner_commands_busy
        WHERE busy.miner_id = c.miner_id AND busy.status IN ('dispatched', 'running')
    ) THEN 1 ELSE 0 END AS is_miner_busy
FROM present JOIN miner_commands AS c ON c.id IN (
    SELECT id FROM miner_commands
    WHERE zone_id = present.zone_id AND command_type = present.command_type
        AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
)
WHERE present.command_type IS NOT NULL

-- name: ready@postgres
-- PostgreSQL seeks once per row of a list only with LATERAL. It also keeps the index entries of commands that were leased
-- for as long as any older transaction is open. So types with a watermark are read from their watermark on, and other types
-- are found by seeks between those: see `ready_watermarks`. A subquery with LIMIT is sought for each row; for EXISTS
-- PostgreSQL may read the leased commands of all miners instead.
WITH RECURSIVE present (zone_id, command_type) AS (
    SELECT listed.zone_id, ''
    FROM (
        SELECT zone.id AS zone_id FROM json_each(:sites) AS site JOIN edge_zones AS zone ON zone.site_id = site.value
        UNION ALL
        SELECT value FROM json_each(:zones)
    ) AS listed
    UNION ALL
    SELECT present.zone_id, LEAST(marked.command_type, CASE WHEN marked.command_type IS NULL THEN (
        SELECT MIN(command_type) FROM miner_commands
        WHERE zone_id = present.zone_id AND command_type > present.command_type
            AND status = 'pending' AND next_attempt_at IS NULL
    ) ELSE (
        SELECT MIN(command_type) FROM miner_commands
        WHERE zone_id = present.zone_id AND command_type > present.command_type
            AND command_type < marked.command_type AND status = 'pending' AND next_attempt_at IS NULL
    ) END)
    FROM present CROSS JOIN LATERAL (
        SELECT MIN(command_type) AS command_type FROM ready_marks
        WHERE zone_id = present.zone_id AND command_type > present.command_type
    ) AS marked
    WHERE present.command_type IS NOT NULL
)
SELECT c.rank, c.id, c.command_type, c.command_id, c.site_id, c.zone_id, c.miner_id, c.params, c.sealed_params,
    c.priority, c.expires_at, c.dedupe_key, c.attempt, c.retry_count, c.max_retries, COALESCE(c.approved_at, c.created_at) AS ready_at,
    mark.rank AS watermark, mark.frontier,
    CASE WHEN CAST(:one_per_miner AS BIGINT) = 1 THEN COALESCE((
        SELECT 1 FROM miner_commands AS busy
        WHERE busy.miner_id = c.miner_id AND busy.status IN ('dispatched', 'running') LIMIT 1
    ), 0) ELSE 0 END AS is_miner_busy
FROM present CROSS JOIN LATERAL (
    SELECT COALESCE(MAX(rank), CAST('-9223372036854775808' AS BIGINT)) AS rank, MAX(frontier) AS frontier
    FROM ready_marks WHERE zone_id = present.zone_id AND command_type = present.command_type
) AS mark CROSS JOIN LATERAL (
    SELECT * FROM miner_commands
    WHERE zone_id = present.zone_id AND command_type = present.command_type AND rank >= mark.rank
        AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
) AS c
WHERE present.command_type > ''

-- name: count_waiting
-- How many commands of a type are ready in the zones, up to a maximum.
SELECT COUNT(*) AS count, 0 AS horizon FROM (
    SELECT 1 FROM miner_commands
    WHERE zone_id IN (SELECT value FROM json_each(:zones)) AND command_type = :command_type
        AND status = 'pending' AND next_attempt_at IS NULL
    LIMIT :count_max
) AS waiting

-- name: count_waiting@postgres
-- Counts from the watermarks on. The horizon is the oldest transaction id that is still running: other nodes compare it with
-- the ids of changes. No change of the site's queue can have been committed since it was read: the site is locked.
SELECT COUNT(*) AS count, CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) AS horizon FROM (
    SELECT 1 FROM json_each(:zones) AS zone CROSS JOIN LATERAL (
        SELECT COALESCE(MAX(rank), CAST('-9223372036854775808' AS BIGINT)) AS rank
        FROM ready_marks WHERE zone_id = zone.value AND command_type = :command_type
    ) AS mark CROSS JOIN LATERAL (
        SELECT 1 FROM miner_commands
        WHERE zone_id = zone.value AND command_type = :command_type AND rank >= mark.rank
            AND status = 'pending' AND next_attempt_at IS NULL
        LIMIT :count_max
    ) AS found
    LIMIT :count_max
) AS waiting
