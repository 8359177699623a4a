-- name: active_client
-- The client of that name, and what it may.
SELECT id, scope FROM event_clients WHERE client_id = :client_id AND suspended_at IS NULL
