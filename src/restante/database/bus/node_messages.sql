-- name: store
-- Stores a message for the other nodes. An engine without other nodes has no reader; it only needs a unique number.
INSERT INTO notices (commit_id, node, kept_at, message)
SELECT COALESCE(MAX(commit_id), 0) + 1, :node, :now_ms, :message FROM notices
RETURNING commit_id

-- name: store@postgres
-- commit_id is the transaction id. Together with the ids of open transactions it shows which messages a scan may have
-- missed.
INSERT INTO notices (commit_id, node, kept_at, message)
VALUES (CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT), :node, :now_ms, :message)
RETURNING commit_id

-- name: horizon
-- All transactions with an id below commit_id have ended. No transaction with the id next_id or above has begun.
SELECT COALESCE(MAX(commit_id), 0) + 1 AS commit_id, COALESCE(MAX(commit_id), 0) + 1 AS next_id FROM notices

-- name: horizon@postgres
-- Read from the server's snapshot: the newest stored message says nothing about open transactions.
SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) AS commit_id,
    CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) AS next_id

-- name: stored_since
-- The other nodes' messages from the horizon on, except those so new that their node is about to publish them.
SELECT commit_id, node, message FROM notices
WHERE commit_id >= :horizon AND kept_at <= :before_ms AND node <> :node
ORDER BY commit_id

-- name: message
-- The message of one transaction.
SELECT message FROM notices WHERE commit_id = :commit_id

-- name: delete_old
-- Deletes messages that every node has had time to read.
DELETE FROM notices WHERE commit_id IN (
    SELECT commit_id FROM notices WHERE kept_at < :before_ms ORDER BY commit_id LIMIT :limit)
