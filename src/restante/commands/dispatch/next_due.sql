-- name: next_due
-- The stored next due times of the sites that have one.
SELECT site_id, quiet_until FROM site_quiet WHERE site_id IN (SELECT value FROM json_each(:sites))

-- name: store_next_due
-- Replaces a site's next due time.
INSERT INTO site_quiet (site_id, quiet_until) VALUES (:site_id, :quiet_until)
ON CONFLICT (site_id) DO UPDATE SET quiet_until = excluded.quiet_until

-- name: lower_next_due
-- Makes a site's next due time earlier, never later.
UPDATE site_quiet SET quiet_until = :due_ms
WHERE site_id = :site_id AND (quiet_until IS NULL OR quiet_until > :due_ms)
