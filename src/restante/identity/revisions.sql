-- name: raise_revision
-- Tells other processes that access was taken away.
UPDATE revisions SET value = value + 1 WHERE name = 'identity'

-- name: current_revision
-- What a process compares with the number it last saw.
SELECT value FROM revisions WHERE name = 'identity'
