-- name: insert_code
-- Stores new codes; returns no row if the user code is taken.
INSERT INTO device_codes
    (
        device_code_hash, user_code, purpose, scopes, address, address_group, user_agent, interval_seconds, created_at,
        expires_at
    )
VALUES
    (
        :device_code_hash, :user_code, :purpose, :scopes, :address, :address_group, :user_agent, :interval_seconds,
        :now_ms, :expires_at
    )
ON CONFLICT DO NOTHING
RETURNING id

-- name: waiting_code
-- The pending approval that a person decides on.
SELECT user_code, purpose, scopes, address, user_agent, created_at, expires_at
FROM device_codes WHERE user_code = :user_code AND status = 'pending' AND expires_at > :now_ms

-- name: decide
-- Stores the person's decision, once.
UPDATE device_codes SET status = :status, user_id = :user_id, decided_at = :now_ms
WHERE user_code = :user_code AND purpose = :purpose AND status = 'pending' AND expires_at > :now_ms

-- name: find_code
-- The status for the polling device.
SELECT id, status, user_id, interval_seconds, expires_at, last_polled_at
FROM device_codes WHERE device_code_hash = :device_code_hash AND purpose = :purpose

-- name: find_code@postgres
-- Locked: of two concurrent polls the second sees the time of the first.
SELECT id, status, user_id, interval_seconds, expires_at, last_polled_at
FROM device_codes WHERE device_code_hash = :device_code_hash AND purpose = :purpose FOR UPDATE

-- name: note_poll
-- The next poll is compared with this time.
UPDATE device_codes SET last_polled_at = :now_ms WHERE id = :code_id

-- name: consume
-- Consumes the approval, once: the row is needed no longer.
DELETE FROM device_codes WHERE id = :code_id AND status = 'approved'

-- name: delete_expired
-- Deletes expired codes, the oldest first.
DELETE FROM device_codes
WHERE id IN (SELECT id FROM device_codes WHERE expires_at <= :now_ms ORDER BY expires_at LIMIT :count)

-- name: count_of_group
-- The codes of one address, and when the first of them expires.
SELECT count(*) AS count, min(expires_at) AS next_expires_at
FROM device_codes WHERE address_group = :address_group AND expires_at > :now_ms

-- name: count_all
-- All codes, and when the first of them expires.
SELECT count(*) AS count, min(expires_at) AS next_expires_at FROM device_codes WHERE expires_at > :now_ms
