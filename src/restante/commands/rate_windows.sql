-- name: window_ends
-- The newest hand-out of a type at a site, and the oldest that is still within the window: none, one or both.
SELECT n, dispatched_at FROM (
    SELECT n, dispatched_at FROM command_dispatches
    WHERE site_id = :site_id AND command_type = :command_type AND dispatched_at <= :ahead
    ORDER BY dispatched_at DESC, n DESC LIMIT 1
) AS newest
UNION ALL
SELECT n, dispatched_at FROM (
    SELECT n, dispatched_at FROM command_dispatches
    WHERE site_id = :site_id AND command_type = :command_type AND dispatched_at > :past AND dispatched_at <= :ahead
    ORDER BY dispatched_at, n LIMIT 1
) AS oldest

-- name: insert_dispatch
-- One hand-out more.
INSERT INTO command_dispatches (site_id, command_type, dispatched_at, n)
VALUES (:site_id, :command_type, :dispatched_at, :n)

-- name: prune
-- Forgets what no window counts any more, and what a clock that ran ahead has left.
DELETE FROM command_dispatches
WHERE site_id = :site_id AND command_type = :command_type AND (dispatched_at <= :past OR dispatched_at > :ahead)
