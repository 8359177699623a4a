-- name: usable_key
-- Finds the key, unless it was withdrawn while it signed.
SELECT 1 AS usable FROM event_signing_keys WHERE kid = :kid AND withdrawn_at IS NULL

-- name: usable_key@postgres
-- FOR SHARE makes a concurrent withdrawal wait until these tokens are stored, so that it finds them.
SELECT 1 AS usable FROM event_signing_keys WHERE kid = :kid AND withdrawn_at IS NULL FOR SHARE

-- name: has_receiver
-- Finds the client's receiver for the profile.
SELECT 1 AS found FROM event_receivers WHERE client = :client AND profile = :profile

-- name: count_unsigned
-- The number of events that wait to be signed.
SELECT count(*) AS count FROM event_inbox WHERE status = 'unsigned'
