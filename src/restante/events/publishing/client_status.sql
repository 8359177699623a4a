-- name: statuses
-- A page of clients with their counts. For each profile, every event up to the newest hand-out is delivered.
SELECT c.id, c.client_id, c.name, c.suspended_at, c.removed_at, c.last_poll_at,
  (SELECT count(*) FROM event_inbox i WHERE i.client = c.id AND i.status IN ('unsigned', 'ready')) AS open,
  (SELECT count(*) FROM event_inbox i WHERE i.client = c.id AND i.status = 'errored') AS errored,
  (SELECT count(*) FROM event_inbox i
   WHERE i.client = c.id AND i.profile = 'open-banking' AND i.status IN ('unsigned', 'ready')
     AND i.id <= (SELECT max(h.through) FROM event_hand_outs h
                  WHERE h.client = c.id AND h.profile = 'open-banking')) AS delivered_open_banking,
  (SELECT count(*) FROM event_inbox i
   WHERE i.client = c.id AND i.profile = 'shared-signals' AND i.status IN ('unsigned', 'ready')
     AND i.id <= (SELECT max(h.through) FROM event_hand_outs h
                  WHERE h.client = c.id AND h.profile = 'shared-signals')) AS delivered_shared_signals,
  (SELECT i.created_at FROM event_inbox i
   WHERE i.client = c.id AND i.profile = 'open-banking' AND i.status IN ('unsigned', 'ready')
   ORDER BY i.id LIMIT 1) AS oldest_open_banking,
  (SELECT i.created_at FROM event_inbox i
   WHERE i.client = c.id AND i.profile = 'shared-signals' AND i.status IN ('unsigned', 'ready')
   ORDER BY i.id LIMIT 1) AS oldest_shared_signals
FROM event_clients c WHERE c.id > :after
  AND (CAST(:clients AS TEXT) IS NULL OR c.id IN (SELECT value FROM json_each(:clients)))
ORDER BY c.id LIMIT :limit

-- name: unsigned
-- The number of a client's events that wait to be signed.
SELECT count(*) AS count FROM event_inbox WHERE client = :client AND status IN ('unsigned', 'ready') AND status = 'unsigned'

-- name: reasons
-- A client's error reasons, the most frequent first, each with its newest description.
SELECT counted.err, counted.count, newest.err_description AS description
FROM (SELECT err, count(*) AS count, max(id) AS newest_id FROM event_inbox
      WHERE client = :client AND status = 'errored' GROUP BY err) AS counted
JOIN event_inbox AS newest ON newest.id = counted.newest_id
ORDER BY counted.count DESC, counted.err LIMIT :limit
