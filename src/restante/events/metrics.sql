-- name: counts
-- How many events wait to be signed, are not acknowledged, could not be used, each counted on its own partial index.
SELECT (SELECT COUNT(*) FROM event_inbox WHERE status = 'unsigned') AS unsigned,
       (SELECT COUNT(*) FROM event_inbox WHERE status IN ('unsigned', 'ready')) AS open,
       (SELECT COUNT(*) FROM event_inbox WHERE status = 'errored') AS errored

-- name: delivered
-- How many were delivered and are not acknowledged: those up to the last hand-out of their client.
SELECT COALESCE(SUM(each.count), 0) AS delivered FROM (
    SELECT (
        SELECT COUNT(*) FROM event_inbox AS inbox
        WHERE inbox.client = mark.client AND inbox.profile = mark.profile
          AND inbox.status IN ('unsigned', 'ready') AND inbox.id <= mark.through) AS count
    FROM (
        SELECT client, profile, MAX(through) AS through FROM event_hand_outs GROUP BY client, profile) AS mark) AS each
