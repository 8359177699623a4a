-- name: insert_client
-- Adds a client; returns nothing if its client_id exists.
INSERT INTO event_clients (client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope,
                           set_signing_alg, created_at, jwks_uri, jwks_read_at)
VALUES (:client_id, :name, :method, :secret_hash, :jwks, :subject_dn, :scope, :set_signing_alg, :now_ms, :jwks_uri,
        :jwks_read_at)
ON CONFLICT (client_id) DO NOTHING
RETURNING id

-- name: client
-- One client, by its client_id.
SELECT id, client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope, set_signing_alg,
       created_at, suspended_at, last_poll_at, removed_at, jwks_uri, jwks_read_at
FROM event_clients WHERE client_id = :client_id

-- name: client_for_update
-- One client, for a decision: no token may be issued beside a change that ends all tokens.
SELECT id, client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope, set_signing_alg,
       created_at, suspended_at, last_poll_at, removed_at, jwks_uri, jwks_read_at
FROM event_clients WHERE client_id = :client_id

-- name: client_for_update@postgres
-- FOR UPDATE: a concurrent writer waits and then sees this change.
SELECT id, client_id, name, token_endpoint_auth_method, secret_hash, jwks, tls_subject_dn, scope, set_signing_alg,
       created_at, suspended_at, last_poll_at, removed_at, jwks_uri, jwks_read_at
FROM event_clients WHERE client_id = :client_id FOR UPDATE

-- name: count_clients
-- The number of clients.
SELECT count(*) AS clients FROM event_clients

-- name: set_credentials
-- Replaces the credentials of a client.
UPDATE event_clients
SET secret_hash = :secret_hash, jwks = :jwks, jwks_uri = :jwks_uri, jwks_read_at = :jwks_read_at,
    tls_subject_dn = :subject_dn
WHERE id = :id

-- name: set_published_keys
-- Stores the keys that were read from a client's own address.
UPDATE event_clients SET jwks = :jwks, jwks_read_at = :now_ms WHERE id = :id

-- name: set_suspended_at
-- Suspends or resumes a client.
UPDATE event_clients SET suspended_at = :suspended_at WHERE id = :id

-- name: client_names
-- The names of the first clients, in the order of registration.
SELECT client_id, name, removed_at FROM event_clients
WHERE CAST(:clients AS TEXT) IS NULL OR id IN (SELECT value FROM json_each(:clients))
ORDER BY id LIMIT :limit
