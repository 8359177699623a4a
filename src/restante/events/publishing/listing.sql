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

-- name: events
-- A page of all events, newest first.
SELECT i.*, c.client_id FROM event_inbox i JOIN event_clients c ON c.id = i.client
WHERE i.id < :before AND (CAST(:status AS TEXT) IS NULL OR i.status = :status)
  AND (CAST(:txn AS TEXT) IS NULL OR i.txn = :txn)
  AND (CAST(:clients AS TEXT) IS NULL OR i.client IN (SELECT value FROM json_each(:clients)))
ORDER BY i.id DESC LIMIT :limit

-- name: events_of_client
-- A page of a client's events, newest first. A client's texts are adjacent, so other clients' rows are not read.
SELECT i.*, c.client_id
FROM event_texts t JOIN event_inbox i ON i.id = t.place - :first JOIN event_clients c ON c.id = :client
WHERE t.place > :first AND t.place < :before AND (CAST(:status AS TEXT) IS NULL OR i.status = :status)
  AND (CAST(:txn AS TEXT) IS NULL OR i.txn = :txn)
ORDER BY t.place DESC LIMIT :limit

-- name: open_of_client
-- A page of a client's unsigned or ready events, newest first.
SELECT i.*, c.client_id FROM event_inbox i JOIN event_clients c ON c.id = i.client
WHERE i.client = :client AND i.id < :before AND i.status IN ('unsigned', 'ready') AND i.status = :status
  AND (CAST(:txn AS TEXT) IS NULL OR i.txn = :txn)
ORDER BY i.id DESC LIMIT :limit

-- name: errored_of_client
-- A page of a client's errored events, newest first.
SELECT i.*, c.client_id FROM event_inbox i JOIN event_clients c ON c.id = i.client
WHERE i.client = :client AND i.id < :before AND i.status = 'errored' AND i.status = :status
  AND (CAST(:txn AS TEXT) IS NULL OR i.txn = :txn)
ORDER BY i.id DESC LIMIT :limit
