-- name: say_otherwise
-- Follow the subject, or do not, where something was said of it before.
UPDATE event_stream_subjects SET is_added = :is_added, verified = :is_verified, updated_at = :now_ms
WHERE stream = :stream AND subject_hash = :subject_hash

-- name: count_one_more
-- One more subject, if there may be one.
UPDATE event_streams SET subject_count = subject_count + 1 WHERE id = :stream AND subject_count < :subjects_max

-- name: say
-- Follow the subject, or do not.
INSERT INTO event_stream_subjects (stream, subject_hash, subject, is_added, verified, updated_at)
VALUES (:stream, :subject_hash, :subject, :is_added, :is_verified, :now_ms)
