-- name: beat
-- Says that the node runs.
INSERT INTO nodes (name, host, listen, roles, version, started_at, seen_at, load)
VALUES (:name, :host, :listen, :roles, :version, :started_at, :now_ms, :load)
ON CONFLICT (name) DO UPDATE SET seen_at = excluded.seen_at, load = excluded.load

-- name: nodes
-- All nodes that ran lately, the oldest first.
SELECT name, host, listen, roles, version, started_at, seen_at, load FROM nodes ORDER BY started_at, name

-- name: remove
-- A node that stopped.
DELETE FROM nodes WHERE name = :name

-- name: remove_old
-- Nodes that disappeared long ago.
DELETE FROM nodes WHERE seen_at < :before_ms
