-- name: active_leases
-- How many commands each site's collectors hold now.
SELECT s.id AS site_id, count(c.lease_until) AS leases
FROM edge_sites s
LEFT JOIN miner_commands c ON c.site_id = s.id AND c.status IN ('dispatched', 'running') AND c.lease_until > :now_ms
GROUP BY s.id ORDER BY s.id
