-- name: client_row
-- The row of a client.
SELECT id FROM event_clients WHERE client_id = :client_id
