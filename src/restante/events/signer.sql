-- name: usable_key
-- A row unless the key was withdrawn while it was signing.
SELECT 1 AS usable FROM event_signing_keys WHERE kid = :kid AND withdrawn_at IS NULL

-- name: usable_key@postgres
-- Several writers: who withdraws the key waits until these tokens are stored, and then finds them.
SELECT 1 AS usable FROM event_signing_keys WHERE kid = :kid AND withdrawn_at IS NULL FOR SHARE

-- name: has_receiver
-- Whether the client's events of the profile are pushed.
SELECT 1 AS found FROM event_receivers WHERE client = :client AND profile = :profile

-- name: count_unsigned
-- How many rows wait to be signed.
SELECT count(*) AS count FROM event_inbox WHERE status = 'unsigned'
