-- name: insert_token
-- Stores an issued token.
INSERT INTO client_access_tokens (token_hash, client, scope, thumbprint, created_at, expires_at)
VALUES (:token_hash, :client, :scope, :thumbprint, :now_ms, :expires_at)

-- name: find_token
-- The owner of a token, also of one that has expired or whose client is suspended.
SELECT t.client, c.client_id, t.scope, t.thumbprint, t.expires_at, c.suspended_at
FROM client_access_tokens AS t JOIN event_clients AS c ON c.id = t.client
WHERE t.token_hash = :token_hash

-- name: delete_tokens_of
-- Ends every token of a client.
DELETE FROM client_access_tokens WHERE client = :client

-- name: delete_expired_tokens
-- Deletes tokens that have expired.
DELETE FROM client_access_tokens WHERE expires_at <= :now_ms
