-- name: insert_used
-- Uses an assertion up; nothing if it was used before.
INSERT INTO client_assertions (client, jti_hash, expires_at) VALUES (:client, :jti_hash, :expires_at)
ON CONFLICT (client, jti_hash) DO NOTHING
RETURNING client

-- name: delete_expired_of
-- A client's assertions that would be refused as expired anyway.
DELETE FROM client_assertions WHERE client = :client AND expires_at <= :now_ms

-- name: delete_expired
-- Everybody's.
DELETE FROM client_assertions WHERE expires_at <= :now_ms
