-- When the person of a session last gave the password: the console asks for it again before what cannot be undone.
ALTER TABLE sessions ADD COLUMN confirmed_at INTEGER;
