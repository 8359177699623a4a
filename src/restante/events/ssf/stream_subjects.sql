-- name: update_preference
-- Changes the preference for a subject, if there is one.
UPDATE event_stream_subjects SET is_added = :is_added, verified = :is_verified, updated_at = :now_ms
WHERE stream = :stream AND subject_hash = :subject_hash

-- name: count_subject
-- Counts one more subject, unless the stream has reached the limit.
UPDATE event_streams SET subject_count = subject_count + 1 WHERE id = :stream AND subject_count < :subjects_max

-- name: insert_preference
-- Adds a preference for a subject.
INSERT INTO event_stream_subjects (stream, subject_hash, subject, is_added, verified, updated_at)
VALUES (:stream, :subject_hash, :subject, :is_added, :is_verified, :now_ms)
