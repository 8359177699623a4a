-- name: revision
-- The revision of the site's rules, to check that the copy in memory is current.
SELECT revision FROM rule_revisions WHERE site_id = :site_id

-- name: revisions
-- The revisions of all sites that have rules.
SELECT site_id, revision FROM rule_revisions

-- name: active_rules
-- The site's enabled rules.
SELECT * FROM automation_rules WHERE site_id = :site_id AND enabled = 1 ORDER BY id

-- name: states
-- The states of the site's enabled rules for each miner, with the time of the miner's newest record.
SELECT s.*, l.ts, l.received_at
FROM automation_rules r
JOIN rule_states s ON s.rule_id = r.id
LEFT JOIN telemetry_latest l ON l.miner_id = s.miner_id
WHERE r.site_id = :site_id AND r.enabled = 1

-- name: put_state
-- Writes the state of a rule for a miner.
INSERT INTO rule_states (rule_id, miner_id, holds_since, last_fired_at, last_outcome, last_command_id, quiet_until)
VALUES (:rule_id, :miner_id, :holds_since, :last_fired_at, :last_outcome, :last_command_id, :quiet_until)
ON CONFLICT (rule_id, miner_id) DO UPDATE SET holds_since = excluded.holds_since,
    last_fired_at = excluded.last_fired_at, last_outcome = excluded.last_outcome,
    last_command_id = excluded.last_command_id, quiet_until = excluded.quiet_until

-- name: delete_state
-- Deletes an empty state: the condition does not hold and the rule never fired.
DELETE FROM rule_states WHERE rule_id = :rule_id AND miner_id = :miner_id

-- name: last_reports
-- When the newest record of each miner of the site was received.
SELECT m.id AS miner_id, l.received_at
FROM edge_miners m JOIN telemetry_latest l ON l.miner_id = m.id WHERE m.site_id = :site_id
