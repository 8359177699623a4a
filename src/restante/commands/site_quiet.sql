-- name: quiet
-- Before when nothing is due at the sites, of those of which it is known.
SELECT site_id, quiet_until FROM site_quiet WHERE site_id IN (SELECT value FROM json_each(:sites))

-- name: put_quiet
-- What is known of a site now.
INSERT INTO site_quiet (site_id, quiet_until) VALUES (:site_id, :quiet_until)
ON CONFLICT (site_id) DO UPDATE SET quiet_until = excluded.quiet_until

-- name: disturb
-- Something is due at the site, then.
UPDATE site_quiet SET quiet_until = :at WHERE site_id = :site_id AND (quiet_until IS NULL OR quiet_until > :at)
