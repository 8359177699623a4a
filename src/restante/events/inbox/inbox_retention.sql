-- name: evict
-- Removes events that were acknowledged or dropped long ago, a bounded number at a time.
DELETE FROM event_inbox WHERE id IN (
    SELECT id FROM event_inbox WHERE finished_at < :before_ms ORDER BY finished_at LIMIT :limit)
RETURNING id, client

-- name: evict_text
-- Removes the token of an evicted event.
DELETE FROM event_texts WHERE place = :place

-- name: superseded_records
-- Records of sent positions that are not needed: a newer one exists, and every event up to this one is finished.
SELECT old.client, old.profile, old.through FROM event_hand_outs AS old
WHERE old.sent_at < :before_ms
  AND EXISTS (
    SELECT 1 FROM event_hand_outs AS newer
    WHERE newer.client = old.client AND newer.profile = old.profile AND newer.through > old.through)
  AND NOT EXISTS (
    SELECT 1 FROM event_inbox AS kept
    WHERE kept.client = old.client AND kept.profile = old.profile AND kept.status IN ('unsigned', 'ready')
      AND kept.id <= old.through)
  AND NOT EXISTS (
    SELECT 1 FROM event_inbox AS kept
    WHERE kept.client = old.client AND kept.profile = old.profile AND kept.status = 'errored'
      AND kept.id <= old.through)
ORDER BY old.sent_at LIMIT :limit

-- name: delete_record
-- Removes such a record.
DELETE FROM event_hand_outs WHERE client = :client AND profile = :profile AND through = :through

-- name: last_poll
-- Moves a client's last poll forward, never back.
UPDATE event_clients SET last_poll_at = :polled_ms
WHERE id = :client AND (last_poll_at IS NULL OR last_poll_at < :polled_ms)
