-- name: serialize
-- SQLite has one writer at a time and needs no lock.
SELECT 1 AS locked

-- name: serialize@postgres
-- Each node must see the leases acquired before. The number identifies this lock.
SELECT pg_advisory_xact_lock(20817) AS locked

-- name: delete_expired
-- Deletes leases of nodes that died or are too slow.
DELETE FROM event_signing_claims WHERE claimed_until <= :now_ms

-- name: insert
-- Leases a range of a client's rows.
INSERT INTO event_signing_claims (client, batch, first_id, last_id, claimed_until)
VALUES (:client, :batch, :first_id, :last_id, :claimed_until)

-- name: release
-- Releases the leases of a batch.
DELETE FROM event_signing_claims WHERE batch = :batch
