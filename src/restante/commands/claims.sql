-- name: ready
-- The first of each type in each zone of sites. The types that are there are found by a seek each, and then the first of
-- each, so that a type whose window is full is not read through to find the next.
WITH RECURSIVE present (zone_id, command_type) AS (
    SELECT zone.id, (
        SELECT MIN(command_type) FROM miner_commands
        WHERE zone_id = zone.id AND status = 'pending' AND next_attempt_at IS NULL
    )
    FROM json_each(:keys) AS listed JOIN edge_zones AS zone ON zone.site_id = listed.value
    UNION ALL
    SELECT zone_id, (
        SELECT MIN(command_type) FROM miner_commands
        WHERE zone_id = present.zone_id AND command_type > present.command_type
            AND status = 'pending' AND next_attempt_at IS NULL
    )
    FROM present WHERE command_type IS NOT NULL
)
SELECT c.rank, c.id, c.command_type, c.command_id, c.site_id, c.zone_id, c.miner_id, c.params, c.priority, c.expires_at,
    c.dedupe_key, c.attempt, c.retry_count, c.max_retries, COALESCE(c.approved_at, c.created_at), NULL, NULL
FROM present JOIN miner_commands AS c ON c.id IN (
    SELECT id FROM miner_commands
    WHERE zone_id = present.zone_id AND command_type = present.command_type
        AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
)
WHERE present.command_type IS NOT NULL

-- name: ready@postgres
-- PostgreSQL seeks for each row of a list by LATERAL only. And it leaves an entry of everything that was handed out where
-- it was, for as long as somebody's transaction is open: see `ready_marks`. What is marked is looked for from its mark on,
-- and other types between those that are marked.
WITH RECURSIVE present (zone_id, command_type) AS (
    SELECT zone.id, ''
    FROM json_each(:keys) AS listed JOIN edge_zones AS zone ON zone.site_id = listed.value
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
SELECT c.rank, c.id, c.command_type, c.command_id, c.site_id, c.zone_id, c.miner_id, c.params, c.priority, c.expires_at,
    c.dedupe_key, c.attempt, c.retry_count, c.max_retries, COALESCE(c.approved_at, c.created_at), mark.rank, mark.frontier
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

-- name: ready_in_zone
-- The same for zones.
WITH RECURSIVE present (zone_id, command_type) AS (
    SELECT zone.id, (
        SELECT MIN(command_type) FROM miner_commands
        WHERE zone_id = zone.id AND status = 'pending' AND next_attempt_at IS NULL
    )
    FROM json_each(:keys) AS listed JOIN edge_zones AS zone ON zone.id = listed.value
    UNION ALL
    SELECT zone_id, (
        SELECT MIN(command_type) FROM miner_commands
        WHERE zone_id = present.zone_id AND command_type > present.command_type
            AND status = 'pending' AND next_attempt_at IS NULL
    )
    FROM present WHERE command_type IS NOT NULL
)
SELECT c.rank, c.id, c.command_type, c.command_id, c.site_id, c.zone_id, c.miner_id, c.params, c.priority, c.expires_at,
    c.dedupe_key, c.attempt, c.retry_count, c.max_retries, COALESCE(c.approved_at, c.created_at), NULL, NULL
FROM present JOIN miner_commands AS c ON c.id IN (
    SELECT id FROM miner_commands
    WHERE zone_id = present.zone_id AND command_type = present.command_type
        AND status = 'pending' AND next_attempt_at IS NULL
    ORDER BY rank, id LIMIT :limit
)
WHERE present.command_type IS NOT NULL

-- name: ready_in_zone@postgres
-- As for sites.
WITH RECURSIVE present (zone_id, command_type) AS (
    SELECT zone.id, ''
    FROM json_each(:keys) AS listed JOIN edge_zones AS zone ON zone.id = listed.value
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
SELECT c.rank, c.id, c.command_type, c.command_id, c.site_id, c.zone_id, c.miner_id, c.params, c.priority, c.expires_at,
    c.dedupe_key, c.attempt, c.retry_count, c.max_retries, COALESCE(c.approved_at, c.created_at), mark.rank, mark.frontier
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

-- name: lease
-- Hands a command to a collector: a new attempt with a nonce of its own. It was read as ready in this transaction.
UPDATE miner_commands
SET status = :status, lease_owner = :device_id, lease_until = :lease_until, dispatched_at = :now_ms,
    attempt = :attempt, nonce = :nonce, signed_at = :now_ms
WHERE id = :id

-- name: count_held_back
-- How many of a type wait for its window, up to a bound.
SELECT COUNT(*) AS count, 0 AS horizon FROM (
    SELECT 1 FROM miner_commands
    WHERE zone_id IN (SELECT id FROM edge_zones WHERE site_id = :site_id) AND command_type = :command_type
        AND status = 'pending' AND next_attempt_at IS NULL
    LIMIT :count_max
) AS waiting

-- name: count_held_back@postgres
-- From the marks on. And, for other nodes, below which number every transaction is over. None that changes the site's
-- queue can have been committed since it was read, as the site is locked.
SELECT COUNT(*) AS count, CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) AS horizon FROM (
    SELECT 1 FROM edge_zones AS zone CROSS JOIN LATERAL (
        SELECT COALESCE(MAX(rank), CAST('-9223372036854775808' AS BIGINT)) AS rank
        FROM ready_marks WHERE zone_id = zone.id AND command_type = :command_type
    ) AS mark CROSS JOIN LATERAL (
        SELECT 1 FROM miner_commands
        WHERE zone_id = zone.id AND command_type = :command_type AND rank >= mark.rank
            AND status = 'pending' AND next_attempt_at IS NULL
        LIMIT :count_max
    ) AS found
    WHERE zone.site_id = :site_id
    LIMIT :count_max
) AS waiting

-- name: count_held_back_in_zone
-- The same for one zone.
SELECT COUNT(*) AS count, 0 AS horizon FROM (
    SELECT 1 FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = :command_type AND status = 'pending' AND next_attempt_at IS NULL
    LIMIT :count_max
) AS waiting

-- name: count_held_back_in_zone@postgres
-- As for sites.
SELECT COUNT(*) AS count, CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) AS horizon FROM (
    SELECT 1 FROM miner_commands
    WHERE zone_id = :zone_id AND command_type = :command_type AND status = 'pending' AND next_attempt_at IS NULL
        AND rank >= COALESCE((
            SELECT rank FROM ready_marks WHERE zone_id = :zone_id AND command_type = :command_type
        ), CAST('-9223372036854775808' AS BIGINT))
    LIMIT :count_max
) AS waiting

-- name: zone_of_site
-- Whether a zone is one of the site's.
SELECT id FROM edge_zones WHERE id = :zone_id AND site_id = :site_id
