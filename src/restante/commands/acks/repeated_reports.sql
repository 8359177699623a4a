-- name: count
-- Counts a report, and returns how often it has come.
INSERT INTO repeated_reports (device_id, command_id, kind, count, first_at, last_at)
VALUES (:device_id, :command_id, :kind, 1, :now_ms, :now_ms)
ON CONFLICT (device_id, command_id, kind) DO UPDATE
SET count = repeated_reports.count + 1, last_at = excluded.last_at
RETURNING count

-- name: repeated
-- The reports on a command that came more than once.
SELECT device_id, kind, count, first_at, last_at FROM repeated_reports
WHERE command_id = :command_id AND count > 1 ORDER BY device_id, kind LIMIT :limit
