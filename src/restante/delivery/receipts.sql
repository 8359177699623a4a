-- name: receipts_of
-- What is known of these rows of a source.
SELECT row_id, fingerprint FROM outbox_receipts
WHERE source = :source AND row_id IN (SELECT value FROM json_each(:row_ids))

-- name: keep_receipt
-- The row is published. One under an old row's id is another row: its database was made anew, or restored.
INSERT INTO outbox_receipts (source, row_id, fingerprint, published_at) VALUES (:source, :row_id, :fingerprint, :now_ms)
ON CONFLICT (source, row_id) DO UPDATE SET
    fingerprint = excluded.fingerprint, published_at = excluded.published_at, settled_at = NULL

-- name: settle
-- The row has left PENDING over there: its receipt will not be asked for again.
UPDATE outbox_receipts SET settled_at = :now_ms WHERE source = :source AND row_id = :row_id AND settled_at IS NULL

-- name: unsettled
-- Receipts that are still waiting for that, oldest first.
SELECT row_id FROM outbox_receipts
WHERE source = :source AND settled_at IS NULL AND published_at < :before_ms ORDER BY published_at LIMIT :limit

-- name: evict_settled
-- Removes receipts past their retention, a bounded number at a time.
DELETE FROM outbox_receipts WHERE settled_at < :before_ms AND (source, row_id) IN (
    SELECT source, row_id FROM outbox_receipts WHERE settled_at < :before_ms ORDER BY settled_at LIMIT :limit)
