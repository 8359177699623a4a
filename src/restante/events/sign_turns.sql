-- name: waiting
-- The clients that have something to be signed, one step in the index for each of them, however many rows it has.
WITH RECURSIVE waiting (client) AS (
    SELECT MIN(client) FROM event_inbox WHERE status = 'unsigned' AND client > :beyond
    UNION ALL
    SELECT (SELECT MIN(i.client) FROM event_inbox i WHERE i.status = 'unsigned' AND i.client > waiting.client)
    FROM waiting WHERE waiting.client IS NOT NULL
)
SELECT client FROM waiting WHERE client IS NOT NULL LIMIT :limit

-- name: of_each
-- The oldest rows of each of these clients, behind the given ones, that are in nobody's range: at most a share of each.
SELECT i.id, i.client, i.profile, c.set_signing_alg AS alg, t.text
FROM json_each(:turns) AS turn
CROSS JOIN event_inbox i ON i.client = json_extract(turn.value, '$.client') AND i.status = 'unsigned'
  AND i.id > json_extract(turn.value, '$.after')
  AND i.id <= COALESCE(
    (SELECT last.id FROM event_inbox last
     WHERE last.client = json_extract(turn.value, '$.client') AND last.status = 'unsigned'
       AND last.id > json_extract(turn.value, '$.after')
       AND NOT EXISTS (SELECT 1 FROM event_signing_claims k WHERE k.client = last.client
                       AND last.id BETWEEN k.first_id AND k.last_id AND k.claimed_until > :now_ms)
     ORDER BY last.id LIMIT 1 OFFSET :share - 1), 9223372036854775807)
JOIN event_clients c ON c.id = i.client
JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id
WHERE NOT EXISTS (SELECT 1 FROM event_signing_claims k WHERE k.client = i.client
                  AND i.id BETWEEN k.first_id AND k.last_id AND k.claimed_until > :now_ms)
ORDER BY turn.key, i.id

-- name: of_each@postgres
-- As above: what takes JSON apart has another name there, and a share can be said outright.
SELECT i.id, i.client, i.profile, c.set_signing_alg AS alg, t.text
FROM jsonb_to_recordset(CAST(:turns AS JSONB)) AS turn (client BIGINT, after BIGINT)
CROSS JOIN LATERAL (
    SELECT own.id, own.client, own.profile FROM event_inbox own
    WHERE own.client = turn.client AND own.status = 'unsigned' AND own.id > turn.after
      AND NOT EXISTS (SELECT 1 FROM event_signing_claims k WHERE k.client = own.client
                      AND own.id BETWEEN k.first_id AND k.last_id AND k.claimed_until > :now_ms)
    ORDER BY own.id LIMIT :share) AS i
JOIN event_clients c ON c.id = i.client
JOIN event_texts t ON t.place = i.client * 1099511627776 + i.id
ORDER BY i.client, i.id
