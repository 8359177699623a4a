-- name: insert_code
-- A device asks to be let in; answers nothing if the user code is taken.
INSERT INTO device_codes
    (device_code_hash, user_code, scopes, address, user_agent, interval_seconds, created_at, expires_at)
VALUES
    (:device_code_hash, :user_code, :scopes, :address, :user_agent, :interval_seconds, :now_ms, :expires_at)
ON CONFLICT DO NOTHING
RETURNING id

-- name: waiting_code
-- What a person is asked to approve.
SELECT user_code, scopes, address, user_agent, created_at, expires_at
FROM device_codes WHERE user_code = :user_code AND status = 'pending' AND expires_at > :now_ms

-- name: decide
-- The person's answer, once.
UPDATE device_codes SET status = :status, user_id = :user_id, decided_at = :now_ms
WHERE user_code = :user_code AND status = 'pending' AND expires_at > :now_ms

-- name: find_code
-- What the polling device gets to know.
SELECT id, status, user_id, interval_seconds, expires_at, last_polled_at
FROM device_codes WHERE device_code_hash = :device_code_hash

-- name: find_code@postgres
-- Several may poll with it at once: the second sees when the first did.
SELECT id, status, user_id, interval_seconds, expires_at, last_polled_at
FROM device_codes WHERE device_code_hash = :device_code_hash FOR UPDATE

-- name: note_poll
-- For telling the next poll whether it came too soon.
UPDATE device_codes SET last_polled_at = :now_ms WHERE id = :code_id

-- name: consume
-- The approval is handed over, once.
UPDATE device_codes SET status = 'consumed' WHERE id = :code_id AND status = 'approved'

-- name: delete_expired
-- Clears codes that expired long ago; until then a late device is told so.
DELETE FROM device_codes WHERE expires_at <= :before_ms
