-- name: touch
-- A real change, so that its commit must reach the disk. Each process has its own row: no node waits for another.
INSERT INTO revisions (name, value) VALUES (:name, 1)
ON CONFLICT (name) DO UPDATE SET value = revisions.value + 1
