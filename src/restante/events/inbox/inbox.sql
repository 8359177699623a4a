-- name: put
-- Events for clients, to be signed, numbered in the order of the list.
INSERT INTO event_inbox (client, jti, txn, event_types, status, profile, stream, created_at)
SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
    json_extract(value, '$[3]'), 'unsigned', json_extract(value, '$[5]'), json_extract(value, '$[6]'), :now_ms
FROM json_each(:events) ORDER BY key

-- name: put@postgres
-- PostgreSQL has another function to unnest a JSON list.
INSERT INTO event_inbox (client, jti, txn, event_types, status, profile, stream, created_at)
SELECT CAST(value ->> 0 AS BIGINT), value ->> 1, value ->> 2, value ->> 3, 'unsigned', value ->> 5,
    CAST(value ->> 6 AS BIGINT), :now_ms
FROM jsonb_array_elements(CAST(:events AS JSONB)) WITH ORDINALITY AS listed (value, place) ORDER BY place

-- name: put_texts
-- The token claims of these events, each at the place that its id gives it.
INSERT INTO event_texts (place, jti, text)
SELECT inbox.client * 1099511627776 + inbox.id, inbox.jti, json_extract(value, '$[4]')
FROM json_each(:events) JOIN event_inbox AS inbox ON inbox.jti = json_extract(value, '$[1]')

-- name: put_texts@postgres
-- As above. A lateral look-up by jti: for a join, the planner expects a long list and reads the whole inbox.
INSERT INTO event_texts (place, jti, text)
SELECT put.place, value ->> 1, value ->> 4
FROM jsonb_array_elements(CAST(:events AS JSONB)) AS listed (value)
CROSS JOIN LATERAL (SELECT inbox.client * 1099511627776 + inbox.id AS place FROM event_inbox AS inbox
                    WHERE inbox.jti = value ->> 1 LIMIT 1) AS put

-- name: text_at
-- The text of an event: its token claims until it is signed, then its token.
SELECT text FROM event_texts WHERE place = :place

-- name: set_text
-- Replaces the token claims with the token.
UPDATE event_texts SET text = :text WHERE place = :place

-- name: make_ready
-- Makes signed events deliverable; returns those that were not before.
UPDATE event_inbox SET status = 'ready', kid = :kid, push_at = :push_at
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'unsigned'
RETURNING id

-- name: is_active
-- Whether the client may get events.
SELECT 1 FROM event_clients WHERE id = :client AND suspended_at IS NULL

-- name: lock_active
-- As is_active, for a poll that changes something. SQLite has one writer and needs no lock.
SELECT 1 FROM event_clients WHERE id = :client AND suspended_at IS NULL

-- name: lock_active@postgres
-- Several writers: the lock serialises the polls of one client. So no two polls choose the same events within a delivery
-- window, and none waits for the acknowledgements of another in the opposite order.
SELECT 1 FROM event_clients WHERE id = :client AND suspended_at IS NULL FOR NO KEY UPDATE

-- name: acknowledge
-- Acknowledges events of this client; ids of other clients are ignored silently.
UPDATE event_inbox SET status = 'acknowledged', finished_at = :now_ms, push_at = NULL
WHERE jti IN (SELECT value FROM json_each(:jtis)) AND client = :client AND status IN ('ready', 'errored')

-- name: acknowledge@postgres
-- PostgreSQL has another function to unnest a list of texts.
UPDATE event_inbox SET status = 'acknowledged', finished_at = :now_ms, push_at = NULL
WHERE jti IN (SELECT jsonb_array_elements_text(CAST(:jtis AS JSONB))) AND client = :client
  AND status IN ('ready', 'errored')

-- name: set_error
-- Marks an event of this client as errored, with the error that the client reports.
UPDATE event_inbox
SET status = 'errored', errored_at = :now_ms, err = :err, err_description = :description, push_at = NULL
WHERE jti = :jti AND client = :client AND status IN ('ready', 'errored')

-- name: stream_of
-- The status of a receiver's Shared Signals stream, and the last event to deliver if it is stopped.
SELECT status, open_through FROM event_streams WHERE client = :client

-- name: open_events
-- The oldest events of a client that are not in a delivery window, with their texts.
SELECT inbox.id, inbox.status, texts.jti, texts.text
FROM event_inbox AS inbox JOIN event_texts AS texts ON texts.place = inbox.client * 1099511627776 + inbox.id
WHERE inbox.client = :client AND inbox.profile = :profile AND inbox.status IN ('unsigned', 'ready')
  AND inbox.visible_at <= :now_ms
ORDER BY inbox.id LIMIT :limit

-- name: errored_events
-- As open_events, for errored events.
SELECT inbox.id, inbox.status, texts.jti, texts.text
FROM event_inbox AS inbox JOIN event_texts AS texts ON texts.place = inbox.client * 1099511627776 + inbox.id
WHERE inbox.client = :client AND inbox.profile = :profile AND inbox.status = 'errored'
  AND inbox.visible_at <= :now_ms
ORDER BY inbox.id LIMIT :limit

-- name: count_open
-- How many events of a client are not acknowledged, counted up to a bound.
SELECT COUNT(*) AS count FROM (
    SELECT 1 FROM event_inbox
    WHERE client = :client AND profile = :profile AND status IN ('unsigned', 'ready') AND id <= :through
    LIMIT :limit) AS counted

-- name: count_errored
-- How many events of a client are errored, counted up to a bound.
SELECT COUNT(*) AS count FROM (
    SELECT 1 FROM event_inbox WHERE client = :client AND profile = :profile AND status = 'errored' AND id <= :through
    LIMIT :limit) AS counted

-- name: next_visible
-- When the first delivery window of a client's events ends.
SELECT MIN(visible_at) AS at FROM event_inbox
WHERE client = :client AND profile = :profile AND status IN ('unsigned', 'ready') AND visible_at > :now_ms

-- name: next_visible_errored
-- As next_visible, for errored events.
SELECT MIN(visible_at) AS at FROM event_inbox
WHERE client = :client AND profile = :profile AND status = 'errored' AND visible_at > :now_ms

-- name: open_window
-- Starts a delivery window: no poll gets this event before it ends.
UPDATE event_inbox SET visible_at = :visible_at WHERE id = :id

-- name: sent_through
-- The newest event that was ever sent to the client; all before it were sent, too.
SELECT MAX(through) AS through FROM event_hand_outs WHERE client = :client AND profile = :profile

-- name: record_sent
-- Records that everything up to this event has been sent.
INSERT INTO event_hand_outs (client, profile, through, sent_at) VALUES (:client, :profile, :through, :now_ms)
ON CONFLICT (client, profile, through) DO NOTHING
