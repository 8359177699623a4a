-- name: increment
-- Shows other processes that access was revoked.
UPDATE revisions SET value = value + 1 WHERE name = 'identity'

-- name: current_revision
-- The value that a process compares with the one it last read.
SELECT value FROM revisions WHERE name = 'identity'
