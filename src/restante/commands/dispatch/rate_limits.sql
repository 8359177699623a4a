-- name: window_ends
-- The newest dispatch of a type at each site, and the oldest within the window, if there are any.
SELECT site.value,
    (SELECT d.n FROM command_dispatches AS d
     WHERE d.site_id = site.value AND d.command_type = :command_type AND d.dispatched_at <= :now_ms + :window_ms
     ORDER BY d.dispatched_at DESC, d.n DESC LIMIT 1) AS newest_n,
    (SELECT d.dispatched_at FROM command_dispatches AS d
     WHERE d.site_id = site.value AND d.command_type = :command_type AND d.dispatched_at <= :now_ms + :window_ms
     ORDER BY d.dispatched_at DESC, d.n DESC LIMIT 1) AS newest_at,
    (SELECT d.n FROM command_dispatches AS d
     WHERE d.site_id = site.value AND d.command_type = :command_type
        AND d.dispatched_at > :now_ms - :window_ms AND d.dispatched_at <= :now_ms + :window_ms
     ORDER BY d.dispatched_at, d.n LIMIT 1) AS oldest_n,
    (SELECT d.dispatched_at FROM command_dispatches AS d
     WHERE d.site_id = site.value AND d.command_type = :command_type
        AND d.dispatched_at > :now_ms - :window_ms AND d.dispatched_at <= :now_ms + :window_ms
     ORDER BY d.dispatched_at, d.n LIMIT 1) AS oldest_at
FROM json_each(:sites) AS site

-- name: window_ends@postgres
-- With LATERAL, PostgreSQL reads both columns by one seek. Without a given time, that of the transaction's first lock.
SELECT site.value, newest.n, newest.dispatched_at, oldest.n, oldest.dispatched_at
FROM (
    SELECT COALESCE(CAST(:now_ms AS BIGINT), CAST(NULLIF(current_setting('restante.now_ms', true), '') AS BIGINT)) AS now_ms,
        CAST(:window_ms AS BIGINT) AS window_ms
) AS clock CROSS JOIN json_each(:sites) AS site
LEFT JOIN LATERAL (
    SELECT d.n, d.dispatched_at FROM command_dispatches AS d
    WHERE d.site_id = site.value AND d.command_type = :command_type AND d.dispatched_at <= clock.now_ms + clock.window_ms
    ORDER BY d.dispatched_at DESC, d.n DESC LIMIT 1
) AS newest ON TRUE
LEFT JOIN LATERAL (
    SELECT d.n, d.dispatched_at FROM command_dispatches AS d
    WHERE d.site_id = site.value AND d.command_type = :command_type
        AND d.dispatched_at > clock.now_ms - clock.window_ms AND d.dispatched_at <= clock.now_ms + clock.window_ms
    ORDER BY d.dispatched_at, d.n LIMIT 1
) AS oldest ON TRUE

-- name: insert_dispatch
-- Counts one dispatch.
INSERT INTO command_dispatches (site_id, command_type, dispatched_at, n)
VALUES (:site_id, :command_type, :dispatched_at, :n)

-- name: prune
-- Deletes dispatches that left their window, and those that a fast clock put into the future.
DELETE FROM command_dispatches
WHERE site_id = :site_id AND command_type = :command_type AND (dispatched_at <= :past OR dispatched_at > :ahead)
