-- name: own_active_authority
-- The authority, if an account of the user can be bound to it.
SELECT id FROM certificate_authorities WHERE id = :ca_id AND user_id = :user_id AND status = 'active'

-- name: add
-- Stores a new account.
INSERT INTO acme_accounts
    (user_id, name, email, provider, ca_id, cert_valid_seconds, leaf_key_algorithm, leaf_ec_curve, leaf_rsa_bits,
     created_at)
VALUES (:user_id, :name, :email, :provider, :ca_id, :cert_valid_seconds, :leaf_key_algorithm, :leaf_ec_curve,
        :leaf_rsa_bits, :now_ms)
RETURNING *

-- name: get
-- The account, if it belongs to the user.
SELECT * FROM acme_accounts WHERE id = :acct_id AND user_id = :user_id

-- name: list_of_user
-- A page of the user's accounts.
SELECT * FROM acme_accounts WHERE user_id = :user_id AND id > :after ORDER BY id LIMIT :limit

-- name: delete
-- Deletes an account; its certificates stay, without an account.
DELETE FROM acme_accounts WHERE id = :acct_id AND user_id = :user_id
