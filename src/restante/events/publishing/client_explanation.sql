-- name: hidden
-- How many open events of the client are held back by a delivery window, and until when the first is.
SELECT COUNT(*) AS count, MIN(visible_at) AS until_at FROM event_inbox
WHERE client = :client AND status IN ('unsigned', 'ready') AND visible_at > :now_ms

-- name: oldest_delivery
-- When the oldest open event of the client was delivered first.
SELECT h.sent_at FROM event_inbox AS i
JOIN event_hand_outs AS h ON h.client = i.client AND h.profile = i.profile AND h.through >= i.id
WHERE i.client = :client AND i.status IN ('unsigned', 'ready')
ORDER BY i.id, h.through LIMIT 1
