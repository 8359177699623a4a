-- name: some
-- The clients of these names, with what they asked for.
SELECT c.id AS client, c.client_id, s.event_types,
       t.id AS stream, t.status AS stream_status, t.events_delivered, t.all_subjects
FROM event_clients c
LEFT JOIN event_subscriptions s ON s.client = c.id
LEFT JOIN event_streams t ON t.client = c.id
WHERE c.client_id IN (SELECT value FROM json_each(:client_ids))

-- name: some@postgres
-- PostgreSQL takes a JSON list apart by another function; and each client is sought by its name, however many there are.
SELECT found.*
FROM json_array_elements_text(CAST(:client_ids AS json)) AS listed (value)
CROSS JOIN LATERAL (
    SELECT c.id AS client, c.client_id, s.event_types,
           t.id AS stream, t.status AS stream_status, t.events_delivered, t.all_subjects
    FROM event_clients c
    LEFT JOIN event_subscriptions s ON s.client = c.id
    LEFT JOIN event_streams t ON t.client = c.id
    WHERE c.client_id = value LIMIT 1) AS found

-- name: every
-- Every client, with what it asked for.
SELECT c.id AS client, c.client_id, s.event_types,
       t.id AS stream, t.status AS stream_status, t.events_delivered, t.all_subjects
FROM event_clients c
LEFT JOIN event_subscriptions s ON s.client = c.id
LEFT JOIN event_streams t ON t.client = c.id
ORDER BY c.id

-- name: followers
-- Which streams named this subject, and whether to follow it or not to.
SELECT stream, is_added FROM event_stream_subjects WHERE subject_hash = :subject_hash
