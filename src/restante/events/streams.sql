-- name: insert_stream
-- A client's stream; nothing if it has one.
INSERT INTO event_streams
    (public_id, client, status, events_requested, events_delivered, description, all_subjects, created_at, updated_at)
VALUES (:public_id, :client, 'enabled', :events_requested, :events_delivered, :description, :all_subjects, :now_ms, :now_ms)
ON CONFLICT (client) DO NOTHING
RETURNING public_id

-- name: stream
-- One stream of a client's own.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.client = :client AND s.public_id = :public_id

-- name: streams_of
-- A client's streams: one, or none.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.client = :client ORDER BY s.id

-- name: streams
-- A page of all clients' streams.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.id > :after ORDER BY s.id LIMIT :limit

-- name: lock_stream
-- A stream that is about to be changed.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.client = :client AND s.public_id = :public_id

-- name: lock_stream@postgres
-- Several writers: whoever changes it next waits, and sees what this one did.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.client = :client AND s.public_id = :public_id FOR UPDATE OF s

-- name: lock_any_stream
-- A stream that an operator is about to change.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.public_id = :public_id

-- name: lock_any_stream@postgres
-- Several writers: whoever changes it next waits, and sees what this one did.
SELECT s.id, s.public_id, s.client, c.client_id, s.status, s.status_reason, s.events_requested, s.events_delivered,
       s.description, r.url AS push_url
FROM event_streams AS s JOIN event_clients AS c ON c.id = s.client
LEFT JOIN event_receivers AS r ON r.client = s.client AND r.profile = 'shared-signals'
WHERE s.public_id = :public_id FOR UPDATE OF s

-- name: change_stream
-- What the receiver asked for.
UPDATE event_streams
SET events_requested = :events_requested, events_delivered = :events_delivered, description = :description,
    updated_at = :now_ms
WHERE id = :id

-- name: set_status
-- Whether events are handed out, and up to which where they are not.
UPDATE event_streams
SET status = :status, status_reason = :reason, open_through = :open_through, updated_at = :now_ms
WHERE id = :id

-- name: drop_events
-- What was left for the receiver is not kept.
UPDATE event_inbox SET status = 'dropped', finished_at = :now_ms, push_at = NULL
WHERE client = :client AND profile = 'shared-signals' AND status IN ('unsigned', 'ready', 'errored')

-- name: delete_subjects
-- Whom a stream followed.
DELETE FROM event_stream_subjects WHERE stream = :stream

-- name: delete_stream
-- The stream itself.
DELETE FROM event_streams WHERE id = :id

-- name: verified_at
-- When verification was last asked for.
SELECT verified_at FROM event_streams WHERE id = :id

-- name: note_verified
-- Verification was asked for.
UPDATE event_streams SET verified_at = :now_ms WHERE id = :id

-- name: row_of
-- An event's place in the order of all.
SELECT id FROM event_inbox WHERE jti = :jti
