-- name: place_of_event
-- Where the token of an event is stored, and whose it is.
SELECT i.id, i.client, c.client_id FROM event_inbox i JOIN event_clients c ON c.id = i.client WHERE i.jti = :jti
