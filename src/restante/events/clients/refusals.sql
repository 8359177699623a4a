-- name: add_refusals
-- Counts refusals of a client for a reason. An unknown client is not stored.
INSERT INTO client_refusals (client, reason, count, detail, address, first_at, last_at)
SELECT id, :reason, :count, :detail, CAST(:address AS TEXT), :now_ms, :now_ms FROM event_clients WHERE client_id = :client_id
ON CONFLICT (client, reason) DO UPDATE
SET count = client_refusals.count + excluded.count, detail = excluded.detail, address = excluded.address,
    last_at = excluded.last_at

-- name: refusals
-- The refusals of a client, the latest first.
SELECT reason, count, detail, address, first_at, last_at FROM client_refusals
WHERE client = :client ORDER BY last_at DESC, reason
