-- name: client
-- The row id of a client.
SELECT id FROM event_clients WHERE client_id = :client_id

-- name: event
-- One event.
SELECT i.*, c.client_id FROM event_inbox i JOIN event_clients c ON c.id = i.client WHERE i.jti = :jti

-- name: first_polled
-- The time of the first poll that delivered the event: the earliest hand-out that reached its id.
SELECT sent_at FROM event_hand_outs
WHERE client = :client AND profile = :profile AND through >= :id ORDER BY through LIMIT 1
