-- name: say
-- Follow the subject, or do not.
INSERT INTO event_stream_subjects (stream, subject_hash, subject, is_added, verified, updated_at)
VALUES (:stream, :subject_hash, :subject, :is_added, :is_verified, :now_ms)
ON CONFLICT (stream, subject_hash) DO UPDATE SET
    is_added = excluded.is_added, verified = excluded.verified, updated_at = excluded.updated_at
