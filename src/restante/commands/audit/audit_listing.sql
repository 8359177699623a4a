-- name: rows
-- A page of the trail, newest first. Records of heads are listed only if the filter names them: they are many.
SELECT * FROM command_audit
WHERE id < :before AND at >= :since_ms AND at < :until_ms AND (CAST(:site_id AS BIGINT) IS NULL OR chain = :site_id)
  AND (CAST(:actor AS TEXT) IS NULL OR actor = :actor)
  AND CASE WHEN CAST(:event AS TEXT) IS NULL THEN event <> 'audit.heads' ELSE event = :event END
  AND (CAST(:sites AS TEXT) IS NULL OR chain IN (SELECT value FROM json_each(:sites)))
ORDER BY id DESC LIMIT :limit

-- name: rows_of_command
-- A page of the rows of one command, newest first.
SELECT * FROM command_audit
WHERE command_id = :command_id AND id < :before AND at >= :since_ms AND at < :until_ms
  AND (CAST(:site_id AS BIGINT) IS NULL OR chain = :site_id) AND (CAST(:actor AS TEXT) IS NULL OR actor = :actor)
  AND (CAST(:event AS TEXT) IS NULL OR event = :event)
  AND (CAST(:sites AS TEXT) IS NULL OR chain IN (SELECT value FROM json_each(:sites)))
ORDER BY id DESC LIMIT :limit
