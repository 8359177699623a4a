-- name: receipts_of
-- The receipts of these rows of a source.
SELECT row_id, fingerprint FROM outbox_receipts
WHERE source = :source AND row_id IN (SELECT value FROM json_each(:row_ids))

-- name: store_receipt
-- The row is published. A receipt with the same id belongs to another row, from before a restore of that database.
INSERT INTO outbox_receipts (source, row_id, fingerprint, published_at) VALUES (:source, :row_id, :fingerprint, :now_ms)
ON CONFLICT (source, row_id) DO UPDATE SET
    fingerprint = excluded.fingerprint, published_at = excluded.published_at, settled_at = NULL

-- name: close_receipt
-- The row is no longer PENDING in its source: its receipt will not be needed again.
UPDATE outbox_receipts SET settled_at = :now_ms WHERE source = :source AND row_id = :row_id AND settled_at IS NULL

-- name: open_receipts
-- The receipts of rows that may still be PENDING in their source, oldest first.
SELECT row_id FROM outbox_receipts
WHERE source = :source AND settled_at IS NULL AND published_at < :before_ms ORDER BY published_at LIMIT :limit

-- name: evict_closed
-- Deletes receipts past their retention, a bounded number at a time.
DELETE FROM outbox_receipts WHERE settled_at < :before_ms AND (source, row_id) IN (
    SELECT source, row_id FROM outbox_receipts WHERE settled_at < :before_ms ORDER BY settled_at LIMIT :limit)
