-- name: group
-- One group.
SELECT * FROM device_groups WHERE id = :group_id

-- name: group_named
-- The group with this name among those of a user, or of the fleet.
SELECT * FROM device_groups WHERE user_id = :user_id AND name = :name

-- name: groups_named
-- The groups with this name, of all users: a caller needs to know only that there are several.
SELECT * FROM device_groups WHERE name = :name ORDER BY id LIMIT 10

-- name: count_groups
-- How many groups a user, or the fleet, has.
SELECT COUNT(*) AS count FROM device_groups WHERE user_id = :user_id

-- name: insert_group
-- Stores a new group.
INSERT INTO device_groups (user_id, name, filter, created_at, updated_at, updated_by)
VALUES (:user_id, :name, :filter, :now_ms, :now_ms, :actor)
RETURNING *

-- name: update_group
-- Changes a group.
UPDATE device_groups SET name = :name, filter = :filter, updated_at = :now_ms, updated_by = :actor
WHERE id = :group_id
RETURNING *

-- name: delete_group
-- Deletes a group. The audit trail keeps its filter.
DELETE FROM device_groups WHERE id = :group_id

-- name: groups
-- A page of all groups.
SELECT * FROM device_groups WHERE id > :after ORDER BY id LIMIT :limit

-- name: groups_of_users
-- A page of the groups of some users.
SELECT * FROM device_groups
WHERE id > :after AND user_id IN (SELECT value FROM json_each(:users)) ORDER BY id LIMIT :limit
