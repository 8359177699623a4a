-- name: policy
-- The approval policy.
SELECT command_types, miners_from, window_seconds, changed_at, changed_by FROM approval_policy WHERE id = 1

-- name: insert
-- Stores the first policy, unless another node has stored one.
INSERT INTO approval_policy (id, command_types, miners_from, window_seconds, changed_at, changed_by)
VALUES (1, :command_types, :miners_from, :window_seconds, :now_ms, :actor)
ON CONFLICT (id) DO NOTHING

-- name: put
-- Replaces the policy.
INSERT INTO approval_policy (id, command_types, miners_from, window_seconds, changed_at, changed_by)
VALUES (1, :command_types, :miners_from, :window_seconds, :now_ms, :actor)
ON CONFLICT (id) DO UPDATE SET command_types = excluded.command_types, miners_from = excluded.miners_from,
    window_seconds = excluded.window_seconds, changed_at = excluded.changed_at, changed_by = excluded.changed_by
