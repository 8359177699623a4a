-- name: full_at
-- When this budget is full again.
SELECT full_at FROM sign_in_budgets WHERE budget = :budget

-- name: set_full_at
-- Counts an attempt.
INSERT INTO sign_in_budgets (budget, full_at) VALUES (:budget, :full_at)
ON CONFLICT (budget) DO UPDATE SET full_at = excluded.full_at

-- name: give_back
-- An attempt that succeeded does not count.
UPDATE sign_in_budgets SET full_at = full_at - :interval_ms WHERE budget = :budget

-- name: delete_full
-- Deletes budgets that are full: a missing budget is full, too.
DELETE FROM sign_in_budgets WHERE full_at <= :now_ms

-- name: known_address
-- Whether the person has signed in from this address lately.
SELECT last_at FROM known_addresses
WHERE user_id = :user_id AND address_hash = :address_hash AND last_at > :after_ms

-- name: remember_address
-- The person has signed in from this address now.
INSERT INTO known_addresses (user_id, address_hash, last_at) VALUES (:user_id, :address_hash, :now_ms)
ON CONFLICT (user_id, address_hash) DO UPDATE SET last_at = excluded.last_at

-- name: forget_older_addresses
-- Keeps the newest addresses of the person.
DELETE FROM known_addresses WHERE user_id = :user_id AND address_hash NOT IN (
    SELECT address_hash FROM known_addresses WHERE user_id = :user_id ORDER BY last_at DESC, address_hash LIMIT :count
)

-- name: delete_old_addresses
-- Deletes addresses without a recent sign-in.
DELETE FROM known_addresses WHERE last_at <= :before_ms
