-- name: filters_of
-- A person's saved filters of a list, by name.
SELECT id, list, name, query FROM saved_filters WHERE user_id = :user_id AND list = :list ORDER BY name

-- name: insert_filter
-- Saves a filter; returns no row if the person has one of this name already.
INSERT INTO saved_filters (user_id, list, name, query, created_at)
VALUES (:user_id, :list, :name, :query, :now_ms)
ON CONFLICT (user_id, list, name) DO NOTHING RETURNING id

-- name: delete_filter
-- Deletes a filter of this person; returns its list.
DELETE FROM saved_filters WHERE id = :id AND user_id = :user_id RETURNING list
