-- name: clients_with_unsigned
-- Clients with unsigned events. It takes one index step for each client, whatever its number of events.
WITH RECURSIVE waiting (client) AS (
    SELECT MIN(client) FROM event_inbox WHERE status = 'unsigned' AND client > :after_client
    UNION ALL
    SELECT (SELECT MIN(i.client) FROM event_inbox i WHERE i.status = 'unsigned' AND i.client > waiting.client)
    FROM waiting WHERE waiting.client IS NOT NULL
)
SELECT client FROM waiting WHERE client IS NOT NULL LIMIT :limit

-- name: oldest_of_each
-- For each of these clients, the oldest unsigned events after a given id that no node has leased: at most a share.
SELECT i.id, i.client, i.profile, c.set_signing_alg AS alg, t.text
FROM json_each(:starts) AS start
CROSS JOIN event_inbox i ON i.client = json_extract(start.value, '$.client') AND i.status = 'unsigned'
  AND i.id > json_extract(start.value, '$.after')
  AND i.id <= COALESCE(
    (SELECT last.id FROM event_inbox last
     WHERE last.client = json_extract(start.value, '$.client') AND last.status = 'unsigned'
       AND last.id > json_extract(start.value, '$.after')
       AND NOT EXISTS (SELECT 1 FROM event_signing_claims k WHERE k.client = last.client
                       AND last.id BETWEEN k.first_id AND k.last_id AND k.claimed_until > :now_ms)
     ORDER BY last.id LIMIT 1 OFFSET :share - 1), 9223372036854775807)
JOIN event_clients c ON c.id = i.client
JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id
WHERE NOT EXISTS (SELECT 1 FROM event_signing_claims k WHERE k.client = i.client
                  AND i.id BETWEEN k.first_id AND k.last_id AND k.claimed_until > :now_ms)
ORDER BY start.key, i.id

-- name: oldest_of_each@postgres
-- LATERAL allows a LIMIT for each client.
SELECT i.id, i.client, i.profile, c.set_signing_alg AS alg, t.text
FROM jsonb_to_recordset(CAST(:starts AS JSONB)) AS start (client BIGINT, after BIGINT)
CROSS JOIN LATERAL (
    SELECT own.id, own.client, own.profile FROM event_inbox own
    WHERE own.client = start.client AND own.status = 'unsigned' AND own.id > start.after
      AND NOT EXISTS (SELECT 1 FROM event_signing_claims k WHERE k.client = own.client
                      AND own.id BETWEEN k.first_id AND k.last_id AND k.claimed_until > :now_ms)
    ORDER BY own.id LIMIT :share) AS i
JOIN event_clients c ON c.id = i.client
JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id
ORDER BY i.client, i.id
