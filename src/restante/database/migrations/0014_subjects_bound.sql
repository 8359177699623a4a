-- The number of subjects that a receiver has named for its stream: enforces a bound without counting them each time.
ALTER TABLE event_streams ADD COLUMN subject_count INTEGER NOT NULL DEFAULT 0;
UPDATE event_streams SET subject_count = (SELECT COUNT(*) FROM event_stream_subjects s WHERE s.stream = event_streams.id);
