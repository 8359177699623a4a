-- name: add_tag
-- Adds a tag to a resource.
INSERT INTO tags (kind, resource_id, tag) VALUES (:kind, :resource_id, :tag) ON CONFLICT DO NOTHING

-- name: remove_tag
-- Removes a tag from a resource.
DELETE FROM tags WHERE kind = :kind AND resource_id = :resource_id AND tag = :tag

-- name: tags_of
-- The tags of some resources of one kind.
SELECT resource_id, tag FROM tags
WHERE kind = :kind AND resource_id IN (SELECT value FROM json_each(:resource_ids))

-- name: tags_of@postgres
-- PostgreSQL would read the tags of all resources while it has no statistics.
SELECT listed.value AS resource_id, own.tag
FROM json_each(:resource_ids) AS listed
CROSS JOIN LATERAL (
    SELECT tag FROM tags WHERE kind = :kind AND resource_id = listed.value ORDER BY tag LIMIT 100) AS own
