-- name: own_active_authority
-- Whether an account can be bound to this authority.
SELECT id FROM certificate_authorities WHERE id = :ca_id AND user_id = :user_id AND status = 'active'

-- name: add
-- A new account.
INSERT INTO acme_accounts (user_id, name, email, provider, ca_id, created_at)
VALUES (:user_id, :name, :email, :provider, :ca_id, :now_ms)
RETURNING *

-- name: get
-- An account, if it is this user's.
SELECT * FROM acme_accounts WHERE id = :acct_id AND user_id = :user_id

-- name: list_of_user
-- A user's accounts, a page of them.
SELECT * FROM acme_accounts WHERE user_id = :user_id AND id > :after ORDER BY id LIMIT :limit

-- name: delete
-- Removes an account; its certificates stay, without one.
DELETE FROM acme_accounts WHERE id = :acct_id AND user_id = :user_id
