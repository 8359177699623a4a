-- name: take_turns
-- One writer at a time is all the order that SQLite needs.
SELECT 1 AS turn

-- name: take_turns@postgres
-- Several writers: whoever claims next must see what was claimed before. The number is this purpose's own.
SELECT pg_advisory_xact_lock(20817) AS turn

-- name: forget_ended
-- Claims of nodes that are gone or too slow.
DELETE FROM event_signing_claims WHERE claimed_until <= :now_ms

-- name: unclaimed
-- The oldest rows to be signed that are in nobody's range.
SELECT i.id, i.client, i.profile, c.set_signing_alg AS alg, t.text
FROM event_inbox i
JOIN event_clients c ON c.id = i.client
JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id
WHERE i.status = 'unsigned' AND i.id > :after
  AND NOT EXISTS (SELECT 1 FROM event_signing_claims k WHERE i.id BETWEEN k.first_id AND k.last_id)
ORDER BY i.id LIMIT :limit

-- name: insert
-- A range somebody is going to sign.
INSERT INTO event_signing_claims (first_id, last_id, claimed_until)
VALUES (:first_id, :last_id, :claimed_until) RETURNING id

-- name: release
-- It is signed.
DELETE FROM event_signing_claims WHERE id = :id
