-- name: rows
-- A page of the trail, newest first.
SELECT * FROM command_audit
WHERE id < :before AND at >= :since_ms AND at < :until_ms AND (CAST(:site_id AS BIGINT) IS NULL OR chain = :site_id)
  AND (CAST(:actor AS TEXT) IS NULL OR actor = :actor) AND (CAST(:event AS TEXT) IS NULL OR event = :event)
ORDER BY id DESC LIMIT :limit

-- name: rows_of_command
-- A page of what happened to one command, newest first.
SELECT * FROM command_audit
WHERE command_id = :command_id AND id < :before AND at >= :since_ms AND at < :until_ms
  AND (CAST(:site_id AS BIGINT) IS NULL OR chain = :site_id) AND (CAST(:actor AS TEXT) IS NULL OR actor = :actor)
  AND (CAST(:event AS TEXT) IS NULL OR event = :event)
ORDER BY id DESC LIMIT :limit

-- name: history
-- Everything that happened to one command.
SELECT * FROM command_audit WHERE command_id = :command_id ORDER BY n
