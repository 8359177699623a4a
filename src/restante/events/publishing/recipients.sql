-- name: some
-- The clients with these client_ids, with their subscription and stream.
SELECT c.id AS client, c.client_id, s.event_types,
       t.id AS stream, t.status AS stream_status, t.events_delivered, t.all_subjects
FROM event_clients c
LEFT JOIN event_subscriptions s ON s.client = c.id
LEFT JOIN event_streams t ON t.client = c.id
WHERE c.client_id IN (SELECT value FROM json_each(:client_ids)) AND c.removed_at IS NULL

-- name: some@postgres
-- LATERAL makes PostgreSQL look up each client by its client_id, whatever length it estimates for the list.
SELECT found.*
FROM json_array_elements_text(CAST(:client_ids AS json)) AS listed (value)
CROSS JOIN LATERAL (
    SELECT c.id AS client, c.client_id, s.event_types,
           t.id AS stream, t.status AS stream_status, t.events_delivered, t.all_subjects
    FROM event_clients c
    LEFT JOIN event_subscriptions s ON s.client = c.id
    LEFT JOIN event_streams t ON t.client = c.id
    WHERE c.client_id = value AND c.removed_at IS NULL LIMIT 1) AS found

-- name: page
-- The next clients in the order of their ids, with their subscription and stream.
SELECT c.id AS client, c.client_id, s.event_types,
       t.id AS stream, t.status AS stream_status, t.events_delivered, t.all_subjects
FROM event_clients c
LEFT JOIN event_subscriptions s ON s.client = c.id
LEFT JOIN event_streams t ON t.client = c.id
WHERE c.id > :after AND c.removed_at IS NULL
ORDER BY c.id LIMIT :limit

-- name: followers
-- The streams with a preference for this subject, and whether they follow it.
SELECT stream, is_added FROM event_stream_subjects WHERE subject_hash = :subject_hash
