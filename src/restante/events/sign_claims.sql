-- name: take_turns
-- One writer at a time is all the order that SQLite needs.
SELECT 1 AS turn

-- name: take_turns@postgres
-- Several writers: whoever claims next must see what was claimed before. The number is this purpose's own.
SELECT pg_advisory_xact_lock(20817) AS turn

-- name: forget_ended
-- Claims of nodes that are gone or too slow.
DELETE FROM event_signing_claims WHERE claimed_until <= :now_ms

-- name: insert
-- A client's rows that somebody is going to sign.
INSERT INTO event_signing_claims (client, batch, first_id, last_id, claimed_until)
VALUES (:client, :batch, :first_id, :last_id, :claimed_until)

-- name: release
-- They are signed.
DELETE FROM event_signing_claims WHERE batch = :batch
