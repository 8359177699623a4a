-- name: insert_client
-- A new client; nothing if its client_id is taken.
INSERT INTO event_clients (client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope,
                           set_signing_alg, created_at)
VALUES (:client_id, :name, :method, :secret_hash, :jwks, :subject_dn, :scope, :set_signing_alg, :now_ms)
ON CONFLICT (client_id) DO NOTHING
RETURNING id

-- name: client
-- One client, by its name outside.
SELECT id, client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope, set_signing_alg,
       created_at, suspended_at, last_poll_at
FROM event_clients WHERE client_id = :client_id

-- name: client_held
-- One client, to be decided on: a token must not be given out beside the change that ends all tokens.
SELECT id, client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope, set_signing_alg,
       created_at, suspended_at, last_poll_at
FROM event_clients WHERE client_id = :client_id

-- name: client_held@postgres
-- There several write at once: the row is locked, so that one sees what the other did.
SELECT id, client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope, set_signing_alg,
       created_at, suspended_at, last_poll_at
FROM event_clients WHERE client_id = :client_id FOR UPDATE

-- name: clients
-- A page of clients, in the order they were registered.
SELECT id, client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope, set_signing_alg,
       created_at, suspended_at, last_poll_at
FROM event_clients WHERE id > :after ORDER BY id LIMIT :limit

-- name: count_clients
-- Whether event polling is used at all.
SELECT count(*) AS clients FROM event_clients

-- name: put_credentials
-- Replaces what a client proves itself with.
UPDATE event_clients SET secret_hash = :secret_hash, jwks = :jwks, tls_subject_dn = :subject_dn WHERE id = :id

-- name: put_suspended
-- Suspends a client, or lets it in again.
UPDATE event_clients SET suspended_at = :suspended_at WHERE id = :id
