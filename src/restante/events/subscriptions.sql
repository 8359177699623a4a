-- name: insert_subscription
-- A client's subscription; nothing if it has one.
INSERT INTO event_subscriptions (public_id, client, callback_url, version, event_types, created_at, updated_at)
VALUES (:public_id, :client, :callback_url, :version, :event_types, :now_ms, :now_ms)
ON CONFLICT (client) DO NOTHING
RETURNING public_id, callback_url, version, event_types

-- name: subscription_of
-- What a client subscribed to.
SELECT public_id, callback_url, version, event_types FROM event_subscriptions WHERE client = :client

-- name: lock_subscription
-- As it is before it is changed.
SELECT callback_url FROM event_subscriptions WHERE client = :client AND public_id = :public_id

-- name: lock_subscription@postgres
-- As it is before it is changed; locked, as another writer may change it too and where to push must follow the last.
SELECT callback_url FROM event_subscriptions WHERE client = :client AND public_id = :public_id FOR UPDATE

-- name: replace_subscription
-- Changes a subscription of the client's own.
UPDATE event_subscriptions
SET callback_url = :callback_url, version = :version, event_types = :event_types, updated_at = :now_ms
WHERE client = :client AND public_id = :public_id
RETURNING public_id, callback_url, version, event_types

-- name: delete_subscription
-- Ends a subscription of the client's own.
DELETE FROM event_subscriptions WHERE client = :client AND public_id = :public_id
