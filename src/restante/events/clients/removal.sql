-- name: remove
-- Removes a client; a client that is suspended stays so since then.
UPDATE event_clients SET removed_at = :now_ms, suspended_at = COALESCE(suspended_at, :now_ms) WHERE id = :id

-- name: delete_receivers
-- Ends all push to a client.
DELETE FROM event_receivers WHERE client = :client

-- name: delete_subscription
-- Deletes the subscription of a client.
DELETE FROM event_subscriptions WHERE client = :client

-- name: delete_subjects
-- Deletes the subject preferences of a client's stream.
DELETE FROM event_stream_subjects WHERE stream IN (SELECT id FROM event_streams WHERE client = :client)

-- name: delete_stream
-- Deletes the stream of a client.
DELETE FROM event_streams WHERE client = :client

-- name: drop_events
-- Drops the undelivered events of a client.
UPDATE event_inbox SET status = 'dropped', finished_at = :now_ms, push_at = NULL
WHERE client = :client AND status IN ('unsigned', 'ready', 'errored')
