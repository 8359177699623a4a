-- name: keep
-- Keeps what this transaction tells the other nodes, under the transaction's own number. Without other nodes there is
-- nobody to read it; the number is then made up.
INSERT INTO notices (commit_id, node, kept_at, message)
SELECT COALESCE(MAX(commit_id), 0) + 1, :node, :now_ms, :message FROM notices
RETURNING commit_id

-- name: keep@postgres
-- The number of the transaction tells, with those of transactions that are not over yet, who may have been missed.
INSERT INTO notices (commit_id, node, kept_at, message)
VALUES (CAST(CAST(pg_current_xact_id() AS TEXT) AS BIGINT), :node, :now_ms, :message)
RETURNING commit_id

-- name: horizon
-- Every transaction with a lower number is over; and none with a higher one, or this one, has begun.
SELECT COALESCE(MAX(commit_id), 0) + 1 AS commit_id, COALESCE(MAX(commit_id), 0) + 1 AS next_id FROM notices

-- name: horizon@postgres
-- The server knows which transactions are not over yet; the newest notice says nothing about those.
SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) AS commit_id,
    CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT) AS next_id

-- name: since
-- What other nodes have kept from a transaction on, unless it is so new that they are about to tell it.
SELECT commit_id, node, message FROM notices
WHERE commit_id >= :horizon AND kept_at <= :before_ms AND node <> :node
ORDER BY commit_id

-- name: one_of
-- What one transaction has kept.
SELECT message FROM notices WHERE commit_id = :commit_id

-- name: forget_old
-- Removes what everybody has had time enough to see.
DELETE FROM notices WHERE commit_id IN (
    SELECT commit_id FROM notices WHERE kept_at < :before_ms ORDER BY commit_id LIMIT :limit)
