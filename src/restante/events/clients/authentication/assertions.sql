-- name: insert_used
-- Marks an assertion as used; returns nothing if it was used before.
INSERT INTO client_assertions (client, jti_hash, expires_at) VALUES (:client, :jti_hash, :expires_at)
ON CONFLICT (client, jti_hash) DO NOTHING
RETURNING client

-- name: delete_expired_of
-- Deletes a client's assertions that would be refused as expired.
DELETE FROM client_assertions WHERE client = :client AND expires_at <= :now_ms

-- name: delete_expired
-- Deletes the expired assertions of all clients.
DELETE FROM client_assertions WHERE expires_at <= :now_ms
