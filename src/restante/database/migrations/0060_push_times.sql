-- When an event was pushed without success: the last hundred times, each in milliseconds after a comma. Kept when the
-- event is released or delivered again, which begins its attempts anew.
ALTER TABLE event_inbox ADD COLUMN push_times TEXT;
