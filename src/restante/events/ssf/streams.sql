-- name: insert_stream
-- Adds a client's stream; returns nothing if it has one.
INSERT INTO event_streams
    (public_id, client, status, events_requested, events_delivered, description, all_subjects, created_at, updated_at)
VALUES (:public_id, :client, 'enabled', :events_requested, :events_delivered, :description, :all_subjects, :now_ms, :now_ms)
ON CONFLICT (client) DO NOTHING
RETURNING public_id

-- name: streams_of
-- The streams of a client: one or none.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.client = :client ORDER BY s.id

-- name: streams
-- A page of the streams of all clients.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.id > :after AND (CAST(:clients AS TEXT) IS NULL OR s.client IN (SELECT value FROM json_each(:clients)))
ORDER BY s.id LIMIT :limit

-- name: lock_stream
-- The client of a stream, before a change.
SELECT client FROM event_streams WHERE public_id = :public_id

-- name: lock_stream@postgres
-- FOR UPDATE: a concurrent change waits and then sees this one.
SELECT client FROM event_streams WHERE public_id = :public_id FOR UPDATE

-- name: change_stream
-- Changes the configuration of a stream.
UPDATE event_streams
SET events_requested = :events_requested, events_delivered = :events_delivered, description = :description,
    updated_at = :now_ms
WHERE id = :id

-- name: set_status
-- Sets the status, and the last event that a stopped stream may deliver.
UPDATE event_streams
SET status = :status, status_reason = :reason, open_through = :open_through, updated_at = :now_ms
WHERE id = :id

-- name: drop_events
-- Drops the undelivered events of a stream.
UPDATE event_inbox SET status = 'dropped', finished_at = :now_ms, push_at = NULL
WHERE client = :client AND profile = 'shared-signals' AND status IN ('unsigned', 'ready', 'errored')

-- name: delete_subjects
-- Deletes the subject preferences of a stream.
DELETE FROM event_stream_subjects WHERE stream = :stream

-- name: delete_stream
-- Deletes a stream.
DELETE FROM event_streams WHERE id = :id

-- name: verified_at
-- The time of the last verification.
SELECT verified_at FROM event_streams WHERE id = :id

-- name: set_verified_at
-- Records a verification.
UPDATE event_streams SET verified_at = :now_ms WHERE id = :id

-- name: event_row
-- The row id of an event.
SELECT id FROM event_inbox WHERE jti = :jti
