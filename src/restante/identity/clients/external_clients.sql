-- name: active_client
-- The client with that client_id and its scopes, unless it is suspended.
SELECT id, scope FROM event_clients WHERE client_id = :client_id AND suspended_at IS NULL
