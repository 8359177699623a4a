-- name: insert_rule
-- Adds a rule.
INSERT INTO automation_rules (name, site_id, miner_ids, trigger_type, trigger_metric, trigger_operator, trigger_value,
    trigger_duration_seconds, action_type, action_parameters, sealed_params, cooldown_seconds, priority, enabled,
    created_by, created_at, updated_at)
VALUES (:name, :site_id, :miner_ids, :trigger_type, :trigger_metric, :trigger_operator, :trigger_value,
    :trigger_duration_seconds, :action_type, :action_parameters, :sealed_params, :cooldown_seconds, :priority, :enabled,
    :actor, :now_ms, :now_ms)
RETURNING *

-- name: update_rule
-- Replaces a rule.
UPDATE automation_rules SET name = :name, miner_ids = :miner_ids, trigger_type = :trigger_type,
    trigger_metric = :trigger_metric, trigger_operator = :trigger_operator, trigger_value = :trigger_value,
    trigger_duration_seconds = :trigger_duration_seconds, action_type = :action_type,
    action_parameters = :action_parameters, sealed_params = :sealed_params, cooldown_seconds = :cooldown_seconds, priority = :priority,
    enabled = :enabled, updated_at = :now_ms
WHERE id = :rule_id
RETURNING *

-- name: restart_states
-- After a change the runs start again, and the new cooldown counts from when the rule last fired.
UPDATE rule_states SET holds_since = NULL, quiet_until = last_fired_at + :cooldown_seconds * 1000
WHERE rule_id = :rule_id

-- name: delete_rule
-- Deletes a rule with its states.
DELETE FROM automation_rules WHERE id = :rule_id

-- name: rule
-- One rule.
SELECT * FROM automation_rules WHERE id = :rule_id

-- name: rules
-- A page of all rules.
SELECT * FROM automation_rules WHERE id > :after AND (CAST(:enabled AS BIGINT) IS NULL OR enabled = :enabled) AND CAST(:site_id AS BIGINT) IS NULL
    AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id LIMIT :limit

-- name: rules_of_site
-- A page of a site's rules.
SELECT * FROM automation_rules WHERE site_id = :site_id AND id > :after AND (CAST(:enabled AS BIGINT) IS NULL OR enabled = :enabled)
    AND (CAST(:sites AS TEXT) IS NULL OR site_id IN (SELECT value FROM json_each(:sites)))
ORDER BY id LIMIT :limit

-- name: count_of_site
-- How many rules the site has.
SELECT count(*) AS rules FROM automation_rules WHERE site_id = :site_id

-- name: miners_among
-- How many of these miners belong to the site.
SELECT count(*) AS miners FROM edge_miners
WHERE site_id = :site_id AND id IN (SELECT value FROM json_each(:miner_ids))

-- name: put_revision
-- Sets the site's revision: every node that holds the rules in memory reads them again.
INSERT INTO rule_revisions (site_id, revision) VALUES (:site_id, :revision)
ON CONFLICT (site_id) DO UPDATE SET revision = excluded.revision

-- name: states
-- A page of the rule's states, one for each miner that has one.
SELECT * FROM rule_states WHERE rule_id = :rule_id AND miner_id > :after ORDER BY miner_id LIMIT :limit
