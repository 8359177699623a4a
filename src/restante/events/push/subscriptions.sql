-- name: insert_subscription
-- Adds a client's subscription; returns nothing if it has one.
INSERT INTO event_subscriptions (public_id, client, callback_url, version, event_types, created_at, updated_at)
VALUES (:public_id, :client, :callback_url, :version, :event_types, :now_ms, :now_ms)
ON CONFLICT (client) DO NOTHING
RETURNING public_id, callback_url, version, event_types

-- name: subscription_of
-- The subscription of a client.
SELECT public_id, callback_url, version, event_types FROM event_subscriptions WHERE client = :client

-- name: lock_subscription
-- The callback URL before a change.
SELECT callback_url FROM event_subscriptions WHERE client = :client AND public_id = :public_id

-- name: lock_subscription@postgres
-- Locked: the receiver must follow the last of several concurrent changes.
SELECT callback_url FROM event_subscriptions WHERE client = :client AND public_id = :public_id FOR UPDATE

-- name: replace_subscription
-- Replaces the client's own subscription.
UPDATE event_subscriptions
SET callback_url = :callback_url, version = :version, event_types = :event_types, updated_at = :now_ms
WHERE client = :client AND public_id = :public_id
RETURNING public_id, callback_url, version, event_types

-- name: delete_subscription
-- Deletes the client's own subscription.
DELETE FROM event_subscriptions WHERE client = :client AND public_id = :public_id
