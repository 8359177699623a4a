-- name: add_spent
-- Counts what a collector has spent of a budget at one node.
INSERT INTO collector_budgets (device_id, budget, full_at)
SELECT id, :budget, CAST(:now_ms AS BIGINT) + :spent_ms FROM edge_devices WHERE id = :device_id
ON CONFLICT (device_id, budget) DO UPDATE
SET full_at = CAST(:spent_ms AS BIGINT)
    + CASE WHEN collector_budgets.full_at > :now_ms THEN collector_budgets.full_at ELSE :now_ms END
RETURNING full_at

-- name: delete_full
-- Deletes budgets that are full.
DELETE FROM collector_budgets WHERE full_at <= :now_ms
